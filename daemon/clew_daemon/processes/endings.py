"""How a worker can end, and what each end means: pure rules; what follows from it is decided by the supervisor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clew_daemon.processes import vitals
from clew_daemon.processes.executor import ExecutorDied, OutOfResources
from clew_daemon.processes.nursery import SpawnError
from clew_shared.exit_codes import SIGNAL_BASE, ExitCode
from clew_shared.ledger import LedgerCorrupt, LedgerError, LedgerUnwell
from clew_shared.record.state import State
from clew_shared.text.plain import plain
from clew_shared.wire.nursery import is_shortage
from clew_shared.wire.protocol import Leave

OWES_REPLAN = "left_instead_of_replanning"
UNFINISHED = "exited_unfinished"
NO_HELLO = "no_hello"

ATTEMPT = "attempt"
"""The reason of a worker's end where its attempt is over, and the next one follows."""

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
    if code < SIGNAL_BASE and state.replan_required in ("task", "goal"):
        return Ended("stopped", OWES_REPLAN, code=code)
    reason = vitals.exit_words(code) if code else UNFINISHED if greeted else NO_HELLO
    return Ended("crash", reason, output, code)


def _left(code: int, leave: Leave | None, detail: str) -> Ended:
    """Return what 75 (try again later) and 78 (fix the configuration) mean, by the reason that the agent gave."""
    last = (detail.splitlines() or [""])[-1]
    if code == ExitCode.TEMPORARY:
        known = "its program asked to be tried again later (exit code 75)"
        reason = leave.reason if leave else f"{known}: {last}" if last else known
        after_s = leave.retry_after_s if leave else None
        return Ended("temporary", reason, detail, code, retry_after_s=after_s)
    reason = (
        leave.reason if leave else last or "its program ended with exit code 78 and printed nothing"
    )
    return Ended("configuration", reason, detail, code)


def by_surprise(error: BaseException) -> Ended:
    """Return how a worker ends by an unexpected error: a bug, or half an upgrade."""
    return Ended("crash", "internal", _surprise(error))


def _surprise(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return plain(error)
    return f"{type(error).__name__}: {error}"


def by_fault(error: SpawnError | ExecutorDied | LedgerError | OSError) -> Ended:
    """Return the end of a worker that could not be started or served because of an error."""
    if is_short(error):
        return _short_of_resources(error)
    match error:
        case LedgerError():
            return _by_ledger(error)
        case ExecutorDied():
            cause = error.__cause__
            if isinstance(cause, SpawnError) and cause.reason != "spawn":
                return by_fault(cause)
            return Ended("crash", "executor", str(error))
        case SpawnError():
            return _by_spawn(error)
        case _:
            return Ended("crash", "start", plain(error))


def _by_spawn(error: SpawnError) -> Ended:
    """Return whether a worker that cannot be started is tried again: a bug may pass, or a fault of the nursery."""
    match error.reason:
        case "nursery":
            return Ended("temporary", str(error))
        case "spawn" | "workspace":  # whether that is lost is looked at before a next one
            return Ended("crash", error.reason, str(error))
        case _:
            return Ended("unable", error.reason, str(error))


def is_short(error: BaseException) -> bool:
    """Return whether resources ran out: descriptors, processes, memory."""
    if isinstance(error, SpawnError):
        return error.reason == "resources"
    if isinstance(error, OSError):
        return is_shortage(error)
    return isinstance(error, OutOfResources)


def _short_of_resources(error: BaseException) -> Ended:
    """Return that the worker waits, as for anything else that is likely to come back: it is not its fault."""
    return Ended("temporary", f"cannot start a worker, out of resources: {plain(error)}")


def _by_ledger(error: LedgerError) -> Ended:
    """Return that a person is asked about a record that cannot be read; if none can be written, the daemon stops."""
    if isinstance(error, LedgerCorrupt):
        return Ended("unable", "ledger", f"the goal's record is damaged: {error.what}")
    if isinstance(error, LedgerUnwell):
        return Ended("crash", "ledger", str(error))  # with back-off: the disk may be well again
    return Ended("stopped", "ledger", str(error))
