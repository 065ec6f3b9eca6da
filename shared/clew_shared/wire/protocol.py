"""The worker protocol: JSON-RPC 2.0, one message a line, UTF-8, at most 1 MiB (docs/protocol.md).

Shapes and framing only: what a method does is the daemon's session, what an agent makes of it its own.
"""

import json
import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from clew_shared.ledger.errors import SEQ_MAX
from clew_shared.record.spec import (
    CHECK_CMD_CHARS,
    CHECK_NAME_CHARS,
    COUNT_MAX,
    SUGGESTED_MAX,
    Prompt,
)
from clew_shared.text.validation import faults_of

PROTOCOL_VERSION = 1
LINE_BYTES_MAX = 1 << 20
DEPTH_MAX = 64

TEXT_CHARS_MAX = 200_000
DESCRIPTION_CHARS_MAX = 2_000
TASKS_MAX = 100
SUBTASKS_MAX = 100
COVERS_MAX = TASKS_MAX * SUBTASKS_MAX

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
WRONG_STATE = -32001
STOPPING = -32003


class ProtocolError(Exception):
    """A line that breaks the protocol: `code` is JSON-RPC's, `request_id` the request's where it is known."""

    def __init__(self, message: str, code: int = INVALID_REQUEST, request_id: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.request_id = request_id


class _Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Hello(_Params):
    """The first request of an agent, and a request for the current state at any later time."""

    protocol: int = PROTOCOL_VERSION
    agent: str = Field(default="", max_length=200)


class Heartbeat(_Params):
    """The agent is alive."""


class PlanSubtask(_Params):
    """A subtask of a plan."""

    description: str = Field(min_length=1, max_length=DESCRIPTION_CHARS_MAX)


class PlanTask(_Params):
    """A task of a plan."""

    description: str = Field(min_length=1, max_length=DESCRIPTION_CHARS_MAX)
    subtasks: list[PlanSubtask] = Field(min_length=1, max_length=SUBTASKS_MAX)


ONE_LINE = r"^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$"


class PlanCheck(_Params):
    """A suggested check: a command in one line that exits 0 once the goal is reached."""

    name: str = Field(min_length=1, max_length=CHECK_NAME_CHARS, pattern=ONE_LINE)
    cmd: str = Field(min_length=1, max_length=CHECK_CMD_CHARS, pattern=ONE_LINE)


class Plan(_Params):
    """A plan, or a plan in the place of what was blocked; `checks` are suggestions."""

    tasks: list[PlanTask] = Field(min_length=1, max_length=TASKS_MAX)
    replan: Literal["task", "goal"] | None = None
    # pending subtasks that a replan replaces, numbered from 1; all of them without it, as in 0.1
    covers: Annotated[list[int], Field(max_length=COVERS_MAX)] | Literal["all"] | None = None
    checks: list[PlanCheck] | None = Field(default=None, max_length=SUGGESTED_MAX)


class Act(_Params):
    """Judge an action, and carry it out if it is allowed."""

    tool: str = Field(min_length=1, max_length=200)
    args: dict[str, Any] = Field(default_factory=dict)
    rationale: str = Field(default="", max_length=TEXT_CHARS_MAX)


class Propose(Act):
    """Judge an action that the agent will carry out; it reports by `outcome`."""


class Outcome(_Params):
    """The outcome of an action that was allowed."""

    seq: int = Field(ge=0, le=SEQ_MAX)
    result: Literal["success", "failure", "error", "timeout", "interrupted"]
    output: str | None = None
    changed: bool | None = None
    exit_code: int | None = Field(default=None, ge=-SEQ_MAX, le=SEQ_MAX)
    duration_s: float | None = Field(default=None, ge=0)


class Record(_Params):
    """An action that the agent has already carried out."""

    tool: str = Field(min_length=1, max_length=200)
    args: dict[str, Any] = Field(default_factory=dict)
    result: Literal["success", "failure", "error", "timeout"]
    output: str | None = None
    changed: bool | None = None
    duration_s: float | None = Field(default=None, ge=0)


class Ask(_Params):
    """A question that only a person can answer."""

    question: str = Field(min_length=1, max_length=DESCRIPTION_CHARS_MAX)


class Think(_Params):
    """A thought of the agent."""

    text: str = Field(max_length=TEXT_CHARS_MAX)
    has_tool_calls: bool = False


class Usage(_Params):
    """The cost of an LLM call in tokens and seconds."""

    input: int = Field(default=0, ge=0, le=COUNT_MAX)
    output: int = Field(default=0, ge=0, le=COUNT_MAX)
    cached: int = Field(default=0, ge=0, le=COUNT_MAX)
    seconds: float = Field(default=0.0, ge=0, le=COUNT_MAX)


Found = Annotated[dict[str, Annotated[str, Field(max_length=2_000)]], Field(max_length=12)]
"""What was found in a call's result; it becomes part of the state, so it is bounded."""


class Reflect(_Params):
    """The record of an iteration that has ended (docs/protocol.md); unknown fields are stored."""

    model_config = ConfigDict(frozen=True, extra="allow")
    # what was found in the turn before: one part for its last call, or one for each
    hindsight: list[Found] = Field(default_factory=list, max_length=20)
    # what was added to the transcript, actions by their numbers
    turn: list[dict[str, Any]] = Field(default_factory=list, max_length=200)
    prompt: Prompt | None = None
    iteration: int | None = Field(default=None, ge=0, le=SEQ_MAX)
    progress_assessment: Literal["advancing", "stuck", "regressing", ""] | None = None
    tool_calls: list[dict[str, Any]] = Field(default_factory=list, max_length=200)
    usage: Usage = Usage()
    unfinished: bool = False  # cut off by a crash of a CLI: it costs, and is no iteration


class CompleteSubtask(_Params):
    """The current subtask is done, or this attempt at it failed."""

    success: bool
    failure: str = Field(default="", max_length=TEXT_CHARS_MAX)
    summary: str = Field(default="", max_length=TEXT_CHARS_MAX)


class Advance(_Params):
    """A request for the next pending subtask, which is started."""


class Learn(_Params):
    """Changes to the playbook."""

    deltas: list[dict[str, Any]] = Field(max_length=100)


class Finish(_Params):
    """The goal is done, or cannot be done; `tests_changed` is why it needs changes of what judges it."""

    success: bool
    summary: str = Field(default="", max_length=TEXT_CHARS_MAX)
    tests_changed: str = Field(default="", max_length=DESCRIPTION_CHARS_MAX)


class Check(_Params):
    """A request to run the goal's checks now, in at most `within_s` seconds; nothing follows from how they end."""

    within_s: float = Field(default=60.0, gt=0, le=3_600)


class LlmSlot(_Params):
    """The agent is about to call the LLM, and waits for a free slot at the endpoint (`open`), or has done so."""

    open: bool
    base_url: str = Field(default="", max_length=2_000)


class Leave(_Params):
    """Why the agent is about to exit with 75 (`temporary`: retry after `retry_after_s`) or 78 (`configuration`)."""

    kind: Literal["temporary", "configuration"]
    reason: str = Field(max_length=4_000)
    retry_after_s: float | None = Field(default=None, ge=0, le=30 * 86_400)


class Login(_Params):
    """A login file of a coding agent with refreshed tokens, by its place in the private HOME."""

    place: str = Field(max_length=1_000)
    text: str = Field(max_length=TEXT_CHARS_MAX, repr=False)


_SHAPES: tuple[type[_Params], ...] = (
    Hello, Heartbeat, Plan, Act, Propose, Outcome, Record, Ask, Think, Reflect, CompleteSubtask,
    Advance, Learn, Check, Finish, LlmSlot, Leave, Login,
)  # fmt: skip
METHODS = {re.sub(r"(?<=.)(?=[A-Z])", "_", shape.__name__).lower(): shape for shape in _SHAPES}
"""Every method that an agent may call, with the shape of its params."""


def parse(line: bytes) -> dict[str, Any]:
    """Read one line as a JSON object, lone surrogates, which UTF-8 has none of, as `?`; raises `ProtocolError`."""
    if len(line.rstrip(b"\n")) > LINE_BYTES_MAX:
        raise ProtocolError(f"a message of over {LINE_BYTES_MAX} bytes", PARSE_ERROR)
    try:
        text = line.decode().strip(" \t\r\n")
        message, end = _READER.raw_decode(text)
        message = message if end == len(text) else _READER.decode(text)  # says where more follows
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}", PARSE_ERROR) from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise ProtocolError("not a JSON-RPC 2.0 message")
    if line.count(b"{") + line.count(b"[") > DEPTH_MAX and _deeper(message, DEPTH_MAX):
        raise ProtocolError(f"nested deeper than {DEPTH_MAX} levels")
    if b"\\u" not in line:
        return message
    return dict(_READER.decode(_WRITER.encode(message).encode("utf-8", "replace").decode()))


def _finite(number: str) -> float:
    """Read a number; what JSON cannot express (NaN, infinities) could not be recorded."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number[:40]} is not a finite number")
    return value


_READER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
_WRITER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _deeper(value: Any, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth < 0 or any(_deeper(v, depth - 1) for v in inner if isinstance(v, dict | list))


def request(message: dict[str, Any]) -> tuple[Any, str, Any]:
    """Return id, method and params of an agent's message; raises `ProtocolError` where it is not a request."""
    request_id, method = message.get("id"), message.get("method")
    if not isinstance(method, str) or not isinstance(request_id, int | str | None):
        raise ProtocolError("a request needs a `method` and an `id`", INVALID_REQUEST, request_id)
    return request_id, method, message.get("params", {})


def params(method: str, raw: Any) -> _Params:
    """Check the params of a method; raises `ProtocolError` that names every fault."""
    model = METHODS.get(method)
    if model is None:
        known = ", ".join(METHODS)
        raise ProtocolError(f"no method `{method[:80]}`; available: {known}", METHOD_NOT_FOUND)
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        faults = faults_of(error, "params")
        raise ProtocolError(f"`{method}`: {faults}", INVALID_PARAMS) from None


def line(message: dict[str, Any]) -> bytes:
    """Write a message as one line; lone surrogates cannot be sent and become `?`."""
    try:
        return to_json(message) + b"\n"
    except ValueError:
        return _WRITER.encode(message).encode("utf-8", "replace") + b"\n"


def result(request_id: Any, value: Any) -> bytes:
    """Write an answer."""
    return line({"jsonrpc": "2.0", "id": request_id, "result": value})


def error(request_id: Any, code: int, message: str) -> bytes:
    """Write an error answer."""
    return line({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})


def notification(method: str, value: dict[str, Any]) -> bytes:
    """Write a notification."""
    return line({"jsonrpc": "2.0", "method": method, "params": value})
