"""Which change of a goal's status may follow which: a pure rule that every event passes before it is taken in.

A request can be overtaken while it waits for a worker to stop. What is recorded then must still make sense after what
was recorded meanwhile; above all, a goal that has ended stays ended unless a person reopens that very end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared import events as ev
from clew_shared.model import GoalStatus

if TYPE_CHECKING:
    from clew_shared.state import State


def refusal(state: State, event: ev.Event) -> str:
    """Return why the goal's status does not allow the event, "" where it does."""
    if not event.kind.startswith("goal_"):  # most events, on a step's path
        return ""
    status = GoalStatus(state.goal.status)
    match event:
        case ev.GoalStarted():
            may = status is GoalStatus.QUEUED or (status is GoalStatus.WAITING and not state.paused)
        case ev.GoalWaiting():
            may = not status.ended and status is not GoalStatus.BLOCKED
        case ev.GoalBlocked():
            may = not status.ended
        case ev.GoalEnded():
            may = status is GoalStatus.IN_PROGRESS
            may = may or (event.status == "cancelled" and not status.ended)
        case ev.GoalRequeued():
            may = status in (GoalStatus.WAITING, GoalStatus.BLOCKED)
            may = may or (status.ended and event.after == state.rested_seq)
        case _:
            may = True
    return "" if may else f"the goal is {'paused' if state.paused else status}"
