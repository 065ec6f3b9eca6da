"""The wire between the daemon and an executor: a stream socket, a JSON message a line of at most LINE_BYTES_MAX bytes.

ExecutorReady comes first. Each request is answered by one reply with its `id`, in order; one runs at a time. The
executor ends when the daemon closes its end, after ExecutorFailed, and (exit code 78) after a line that is not valid.
"""

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field

from clew_shared.proof.label import Seen
from clew_shared.record.scope import UNKNOWN
from clew_shared.record.snapshot_events import SnapshotTaken
from clew_shared.record.touched import Touched
from clew_shared.snapshots.entries import Reverted
from clew_shared.wire.framing import WireMessage, encode, reader

LINE_BYTES_MAX = 1024 * 1024

DIFF_CHARS = 4_000  # of the change of what judges that an agent is told
RESTORE_MAX = 200  # How many entries one request restores: names have up to 16 KiB when quoted

ToolResult = Literal["success", "failure", "error", "timeout"]


class ExecutorReady(WireMessage):
    """The executor answers from now on."""

    type: Literal["ready"] = "ready"


class ExecutorFailed(WireMessage):
    """An error that nobody expected, as it is logged: what the request has done is unknown."""

    type: Literal["failed"] = "failed"
    error: str


class Numbered(WireMessage):
    """A request, or the reply with the same number."""

    id: int = 0


class RunRequest(Numbered):
    """Carry out an allowed action; `timeout_s`, which the setting `limit` gives and args may lower, bounds it."""

    type: Literal["run"] = "run"
    seq: int
    tool: str
    args: dict[str, Any]
    timeout_s: float
    limit: str = ""
    output_bytes: int = 65536


class DigestRequest(Numbered):
    """Ask for the digest of the world, or only for a look (`names_only`)."""

    type: Literal["digest"] = "digest"
    names_only: bool = False
    own: bool = False  # while the agent acted: what changed since the last look is the goal's
    report: bool = False  # say what changed since the last report now, not in a later answer


class CheckRequest(Numbered):
    """Run a check with `sh -c`, if `fresh_tmp` in a new TMPDIR; what changes meanwhile is the goal's if `own`."""

    type: Literal["check"] = "check"
    name: str
    cmd: str
    timeout_s: float = 300
    output_bytes: int = 65536
    own: bool = True
    fresh_tmp: bool = False


class SnapshotRequest(Numbered):
    """Take a snapshot, with changes counted from the tree `base`; larger files, or stores, are left out."""

    type: Literal["snapshot"] = "snapshot"
    own: bool = False
    base: str = ""
    max_file_bytes: int
    room_bytes: int


class RestoreRequest(Numbered):
    """Restore entries from the store, in order; a folder is removed where it is empty, and is in no answer."""

    type: Literal["restore"] = "restore"
    entries: tuple[Reverted, ...]


class _Proving(Numbered):
    """What a look and a view go by: trees, and the patterns of the goal."""

    base: str  # the tree of the goal's first snapshot
    end: str  # the tree of now
    since: float  # when the first one was taken, in seconds since 1970
    judges: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    may_change: tuple[str, ...] = ()
    # trees with files of others, by quoted name
    theirs: dict[str, str] = Field(default_factory=dict)


class LookRequest(_Proving):
    """Ask what judges and was changed since the goal's start; `checks` are commands."""

    type: Literal["look"] = "look"
    checks: tuple[str, ...] = ()


class ViewRequest(_Proving):
    """Make a view of the workspace, where the executor runs already, ready for checks."""

    type: Literal["view"] = "view"
    # what is put back, as in label.py, but for `may_change`; compiled: that is removed, and no more
    take: Literal["judges", "data", "tools", "work", "compiled"] = "judges"
    settings: bool = False  # tools and settings are put back, too
    copy_from: str = ""  # the workspace, where the view is an empty folder
    copy_bytes: int = 0  # the most that is copied
    without: bool = False  # no file that git ignores


class WorldDigest(WireMessage):
    """The state of the workspace: equal digests mean equal worlds, except where one is `partial`."""

    digest: str  # 32 hex digits
    entries: int
    partial: bool = False  # cut short by time or size: the rest is not in the digest

    @property
    def name(self) -> str:
        """The digest, UNKNOWN for a partial one, which tells nothing about the rest of the workspace."""
        return UNKNOWN if self.partial else self.digest


class ActionDone(Numbered):
    """The answer to RunRequest, and to a CheckRequest, which passed if its `result` is `success`."""

    type: Literal["done"] = "done"
    seq: int = 0
    result: ToolResult
    output: str
    exit_code: int | None = None  # 128 + signal when a signal ended the command
    duration_s: float
    changed: bool | None = None  # by the tool itself; compared worlds are more reliable
    world: WorldDigest | None = None  # None after a check
    touched: Touched = Touched()  # also by a check


class ActionSaid(Numbered):
    """What a running command has printed last; sent before the answer to RunRequest, at most once a second."""

    type: Literal["said"] = "said"
    tail: str


class SnapshotDone(Numbered):
    """The event of the snapshot that was `taken`, or why none was; `no_room`: the store would be too large.

    `noted` is the action before which an earlier executor has noted what someone else had changed.
    """

    type: Literal["snapshot_taken"] = "snapshot_taken"
    taken: SnapshotTaken | None = None
    fault: str = ""
    no_room: bool = False
    noted: int = 0


class RestoreDone(Numbered):
    """The names restored, and those left: something else was there, or one of the `faults`."""

    type: Literal["restored"] = "restored"
    restored: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    faults: dict[str, str] = Field(default_factory=dict)


class DigestDone(Numbered):
    """The answer to DigestRequest; `world` is None where only names were asked for."""

    type: Literal["digested"] = "digested"
    world: WorldDigest | None = None
    touched: Touched = Touched()

    @property
    def name(self) -> str:
        """The world's name, "" where none was asked for."""
        return self.world.name if self.world else ""


class LookDone(Numbered):
    """What was seen, with the `diff` of files that judge; or the `fault`, all that a ViewRequest is answered by."""

    type: Literal["looked"] = "looked"
    fault: str = ""
    seen: Seen = Seen()
    diff: str = ""


ExecutorRequest = (
    RunRequest | DigestRequest | CheckRequest | SnapshotRequest | RestoreRequest
    | LookRequest | ViewRequest
)  # fmt: skip
ExecutorAnswer = (
    ExecutorReady | ExecutorFailed | ActionSaid | ActionDone | DigestDone | SnapshotDone
    | RestoreDone | LookDone
)  # fmt: skip

read_request: Callable[[bytes], ExecutorRequest] = reader(ExecutorRequest)
read_answer: Callable[[bytes], ExecutorAnswer] = reader(ExecutorAnswer)


def to_line(message: ExecutorRequest | ExecutorAnswer, number: int | None = None) -> bytes:
    """Pack one message, a request with its number; OversizedMessageError beyond LINE_BYTES_MAX."""
    numbered = message if number is None else vars(message) | {"id": number}
    return encode(numbered, LINE_BYTES_MAX - 1) + b"\n"
