"""What follows from the end of a worker: pure, by how it ended and what the workers before it did.

how it ended              what follows
finished, stopped         WorkFinished: the goal rests
temporary                 WaitFor:   the goal waits, ever longer each time in a row
configuration, unable     HandOver: a person has to fix something first
crash                     RestartAfter, or HandOver where there were too many (`restart`)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clew_daemon.processes.endings import Ended
from clew_daemon.supervision import restart
from clew_daemon.supervision.restart import Crashes, RestartAfter, RestartNumbers
from clew_shared.core import questions
from clew_shared.core.questions import Question
from clew_shared.record.state import State

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

    asked: Question
    gave_up: restart.GiveUp | None = None


Consequence = WorkFinished | WaitFor | HandOver | restart.RestartAfter


def after_worker(
    state: State,
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
        case "configuration":
            return HandOver(questions.set_up(state, ended.reason, ended.detail))
        case "unable" if ended.reason == "ledger":
            return HandOver(questions.damaged(state, ended.detail))
        case "unable":
            return HandOver(questions.cannot_start(state, ended.detail))
        case "crash":
            return _after_crash(state, ended, restart.decide(crashes, numbers, jitter))


def _after_crash(
    state: State, ended: Ended, decided: RestartAfter | restart.GiveUp
) -> RestartAfter | HandOver:
    if isinstance(decided, restart.RestartAfter):
        return decided
    if ended.reason == "internal":
        return HandOver(questions.internal(state, ended.detail), decided)
    count, window_s = decided.crashes, decided.window_s
    asked = questions.crashed(state, count, window_s, ended.reason, ended.detail)
    return HandOver(asked, decided)
