"""The wire between the daemon and an executor: a stream socket, one JSON message a line.

ExecutorReady comes first. Then each request with an `id` is answered by one reply with the same `id`, in order; one
runs at a time, the others wait. The executor ends when the daemon closes its end, and at once (exit code 78) after a
line that is not valid. A line has at most LINE_BYTES_MAX bytes.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from clew_shared.record.worlds import UNKNOWN
from clew_shared.wire.framing import WireMessage, encode

LINE_BYTES_MAX = 1024 * 1024

ToolResult = Literal["success", "failure", "error", "timeout"]


class ExecutorReady(WireMessage):
    """The executor answers from now on."""

    type: Literal["ready"] = "ready"
    pid: int  # in its own PID namespace: only for logs


class RunRequest(WireMessage):
    """Carry out one allowed action. `timeout_s` bounds run_cmd and wait; args may lower it."""

    type: Literal["run"] = "run"
    id: int
    seq: int
    tool: str
    args: dict[str, Any]
    timeout_s: float = 120
    output_bytes: int = 65536


class DigestRequest(WireMessage):
    """Ask for the digest of the world; `full`: look at every file, whatever the kernel reports as changed."""

    type: Literal["digest"] = "digest"
    id: int
    full: bool = True


class CheckRequest(WireMessage):
    """Run a goal's check with `sh -c`; it passes with exit code 0."""

    type: Literal["check"] = "check"
    id: int
    name: str
    cmd: str
    timeout_s: float = 300
    output_bytes: int = 65536


class WorldDigest(WireMessage):
    """The state of the workspace: equal digests mean equal worlds, except where one is `partial`."""

    digest: str  # 32 hex digits
    entries: int
    partial: bool = False  # cut short by time or size: the rest is not in the digest

    @property
    def name(self) -> str:
        """The digest, UNKNOWN for a partial one, which tells nothing about the rest of the workspace."""
        return UNKNOWN if self.partial else self.digest


class ActionDone(WireMessage):
    """The answer to RunRequest: an action's outcome, and the world after it.

    `changed` says whether the tool itself changed files, None where it cannot know; compared worlds are more reliable.
    """

    type: Literal["done"] = "done"
    id: int
    seq: int
    result: ToolResult
    output: str
    exit_code: int | None = None  # 128 + signal when a signal ended the command
    duration_s: float
    changed: bool | None = None
    world: WorldDigest | None = None


class DigestDone(WireMessage):
    """The answer to DigestRequest."""

    type: Literal["digested"] = "digested"
    id: int
    world: WorldDigest


class CheckDone(WireMessage):
    """The answer to CheckRequest; `result` is `success` if and only if the check passed."""

    type: Literal["checked"] = "checked"
    id: int
    name: str
    result: ToolResult
    exit_code: int | None
    output: str
    duration_s: float


ExecutorRequest = RunRequest | DigestRequest | CheckRequest
ExecutorAnswer = ExecutorReady | ActionDone | DigestDone | CheckDone

_request: TypeAdapter[ExecutorRequest] = TypeAdapter(
    Annotated[ExecutorRequest, Field(discriminator="type")]
)
_answer: TypeAdapter[ExecutorAnswer] = TypeAdapter(
    Annotated[ExecutorAnswer, Field(discriminator="type")]
)


def to_line(message: ExecutorRequest | ExecutorAnswer) -> bytes:
    """Pack one message; OversizedMessageError beyond LINE_BYTES_MAX."""
    return encode(message, LINE_BYTES_MAX - 1) + b"\n"


def read_request(data: bytes) -> ExecutorRequest:
    """Unpack a line for the executor; pydantic.ValidationError if it is not valid."""
    return _request.validate_json(data)


def read_answer(data: bytes) -> ExecutorAnswer:
    """Unpack a line of the executor; pydantic.ValidationError if it is not valid."""
    return _answer.validate_json(data)
