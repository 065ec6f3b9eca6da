"""What follows from the end of a worker: pure, by how it ended and what the workers before it did.

how it ended              what follows
finished, stopped         WorkFinished: the goal rests
temporary                 WaitFor:   the goal waits, ever longer each time in a row
configuration, unable     HandOver: a person has to fix something first
crash                     RestartAfter, or HandOver where there were too many (`restart`)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_daemon.supervision import restart

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew_daemon.processes.endings import Ended
    from clew_daemon.supervision.restart import Crashes, RestartAfter, RestartNumbers

DETAIL_CHARS = 400


@dataclass(frozen=True, slots=True)
class WorkFinished:
    """There is no next worker: the goal has ended, is paused, or the daemon stops."""


@dataclass(frozen=True, slots=True)
class WaitFor:
    """The goal waits this long for what `reason` says."""

    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class HandOver:
    """A person has to act; `gave_up` where the worker crashed too often."""

    reason: str
    question: str
    gave_up: restart.GiveUp | None = None


Consequence = WorkFinished | WaitFor | HandOver | restart.RestartAfter


def after_worker(
    goal: str,
    ended: Ended,
    crashes: Crashes,
    waits_in_a_row: int,
    numbers: RestartNumbers,
    jitter: Callable[[], float],
) -> Consequence:
    """Return what follows; `crashes` has this one already, `waits_in_a_row` counts the waits before this one."""
    match ended.kind:
        case "finished" | "stopped":
            return WorkFinished()
        case "temporary":
            pause_s = ended.retry_after_s or restart.wait_s(waits_in_a_row, numbers)
            return WaitFor(ended.reason, pause_s)
        case "configuration" | "unable":
            what = ended.detail if ended.kind == "unable" else ended.reason
            return HandOver(what, f"Fix this ({what}), then run `clew resume {goal}`.")
        case "crash":
            return _after_crash(goal, ended, restart.decide(crashes, numbers, jitter))


def _after_crash(
    goal: str, ended: Ended, decided: RestartAfter | restart.GiveUp
) -> RestartAfter | HandOver:
    if isinstance(decided, restart.RestartAfter):
        return decided
    if ended.reason == "internal":
        return HandOver(*unexpected(goal, ended.detail), gave_up=decided)
    output = f" Last output: {ended.detail[-DETAIL_CHARS:]}" if ended.detail else ""
    return HandOver(
        f"{decided}, the last time: {ended.reason}",
        f"Worker keeps crashing ({ended.reason}).{output} Fix the cause, then run `clew resume {goal}`.",
        decided,
    )


def unexpected(goal: str, error: str) -> tuple[str, str]:
    """Return reason and question for a person where an unexpected error in clew stopped a goal."""
    question = (
        f"clew could not continue this goal: {error}. `clew logs {goal}` shows where the error occurred "
        "(goal.run_failed). If clew was upgraded or moved while it ran, restart it (`clew restart`). "
        f"Then `clew resume {goal}`; nothing recorded is lost."
    )
    return f"an unexpected error in clew: {error}", question
