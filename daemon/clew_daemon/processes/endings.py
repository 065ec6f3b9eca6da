"""How a worker can end, and what each end means: pure rules; what follows from it is decided by the supervisor."""

from dataclasses import dataclass
from typing import Literal

from clew_daemon.processes.children import exit_words
from clew_daemon.processes.executor import ExecutorDied, OutOfResources
from clew_daemon.processes.nursery import SpawnError
from clew_shared.exit_codes import SIGNAL_BASE, ExitCode
from clew_shared.ledger.errors import LedgerCorrupt, LedgerError, LedgerUnwell
from clew_shared.record.state import State
from clew_shared.text.plain import plain
from clew_shared.wire.nursery import is_shortage
from clew_shared.wire.protocol import Leave

OWES_REPLAN = "left_instead_of_replanning"
UNFINISHED = "exited_unfinished"
NO_HELLO = "no_hello"

ATTEMPT = "attempt"  # the reason of an end after which the next attempt follows
EndingKind = Literal["finished", "crash", "temporary", "configuration", "stopped", "unable"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a worker ended: `reason` is one word or `exit N`, `detail` what a person should know."""

    kind: EndingKind
    reason: str
    detail: str = ""
    code: int | None = None
    lived_s: float = 0.0
    retry_after_s: float | None = None


def by_exit(
    code: int,
    state: State,
    *,
    stopping: bool,
    leave: Leave | None,
    output: str,
    stop_reason: str = "",
    greeted: bool = True,
) -> Ended:
    """Return what the exit of an agent means; `output` is the end of what it printed, `greeted`: it said hello."""
    if state.ended:
        return Ended("finished", "finished", code=code)
    if state.attempt.over or (stop_reason == ATTEMPT and state.workable):
        return Ended("stopped", ATTEMPT, code=code)
    if stopping or not state.workable:
        return Ended("stopped", "stopped", code=code)
    if code in (ExitCode.TEMPORARY, ExitCode.CONFIGURATION):
        return _left(code, leave, output)
    if code < SIGNAL_BASE and state.plan.replan_required in ("task", "goal"):
        return Ended("stopped", OWES_REPLAN, code=code)
    reason = exit_words(code) if code else UNFINISHED if greeted else NO_HELLO
    return Ended("crash", reason, output, code)


def _left(code: int, leave: Leave | None, detail: str) -> Ended:
    """Return what 75 (try again later) and 78 (fix the configuration) mean, by the reason that the agent gave."""
    last = (detail.splitlines() or [""])[-1]
    if code == ExitCode.TEMPORARY:
        known = "its program asked to be tried again later (exit code 75)"
        reason = leave.reason if leave else f"{known}: {last}" if last else known
        after_s = leave.retry_after_s if leave else None
        return Ended("temporary", reason, detail, code, retry_after_s=after_s)
    known = "its program ended with exit code 78 and printed nothing"
    return Ended("configuration", leave.reason if leave else last or known, detail, code)


def by_surprise(error: BaseException) -> Ended:
    """Return how a worker ends by an unexpected error: a bug, or half an upgrade."""
    is_told = isinstance(error, OSError) and bool(error.strerror)
    said = plain(error) if is_told else f"{type(error).__name__}: {error}"
    return Ended("crash", "internal", said)


def by_fault(error: BaseException) -> Ended:
    """Return the end of a worker that could not be started or served because of an error.

    Out of resources, it waits, as for anything else that is likely to come back: it is not its fault. A person is asked
    about a record that cannot be read; if none can be written, the daemon stops.
    """
    if is_short(error):
        return Ended("temporary", f"cannot start a worker, out of resources: {plain(error)}")
    match error:
        case LedgerCorrupt():
            ended = Ended("unable", "ledger", f"the goal's record is damaged: {error.what}")
        case LedgerUnwell():
            ended = Ended("crash", "ledger", str(error))  # the disk may be well again
        case LedgerError():
            ended = Ended("stopped", "ledger", str(error))
        case ExecutorDied(__cause__=SpawnError(reason=reason) as cause) if reason != "spawn":
            ended = by_fault(cause)
        case ExecutorDied():
            ended = Ended("crash", "executor", str(error))
        case SpawnError(reason="nursery"):
            ended = Ended("temporary", str(error))
        case SpawnError(reason="spawn" | "workspace"):  # a bug may pass; a next one looks at that
            ended = Ended("crash", error.reason, str(error))
        case SpawnError():
            ended = Ended("unable", error.reason, str(error))
        case _:
            ended = Ended("crash", "start", plain(error))
    return ended


def is_short(error: BaseException) -> bool:
    """Return whether resources ran out: descriptors, processes, memory."""
    if isinstance(error, SpawnError):
        return error.reason == "resources"
    if isinstance(error, OSError):
        return is_shortage(error)
    return isinstance(error, OutOfResources)
