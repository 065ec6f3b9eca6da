"""Which events the status of a goal allows: a pure rule that every event passes before it is recorded.

While a request waits for a worker to stop, the status may change. What is recorded then must still make sense; above
all, a goal that has ended stays ended unless a person reopens that very end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus
from clew_shared.text.shorten import beginning

if TYPE_CHECKING:
    from clew_shared.record.state import State


SUBTASK_CHARS = 200


def follow_up(state: State) -> str:
    """Return the first line of feedback after a completed goal's end, for which it may be reopened; "" for none."""
    if not has_follow_up(state):
        return ""
    lines = [line for line in state.guidance.feedback[-1].splitlines() if line.strip()]
    return beginning(lines[0].strip(), SUBTASK_CHARS) if lines else ""


def has_follow_up(state: State) -> bool:
    """Return whether a person gave feedback after the end of a completed goal."""
    completed = GoalStatus(state.goal.status) is GoalStatus.COMPLETED
    return completed and state.guidance.feedback_seq > state.rested_seq


def refusal(state: State, event: ev.Event) -> str:
    """Return why the goal's status does not allow the event, "" if it does."""
    if not event.kind.startswith("goal_"):  # most events, on a step's path
        return ""
    status = GoalStatus(state.goal.status)
    match event:
        case ev.GoalStarted():
            may = status is GoalStatus.QUEUED or (status is GoalStatus.WAITING and not state.paused)
        case ev.GoalWaiting():
            may = not status.ended and status is not GoalStatus.BLOCKED
        case ev.GoalBlocked() | ev.GoalEnded(status="cancelled"):
            may = not status.ended
        case ev.GoalEnded():
            made = state.proofs.made
            accepted = status is GoalStatus.BLOCKED and made and made.accepted == "person"
            may = status is GoalStatus.IN_PROGRESS or bool(accepted)
        case ev.GoalRequeued() if status is GoalStatus.COMPLETED:
            work = state.next_pending() is not None or (has_follow_up(state) and event.subtask)
            may = event.after == state.rested_seq and bool(work)
        case ev.GoalRequeued():
            may = status in (GoalStatus.WAITING, GoalStatus.BLOCKED)
            may = may or (status.ended and event.after == state.rested_seq)
        case ev.GoalEdited():
            may = status not in (GoalStatus.IN_PROGRESS, GoalStatus.COMPLETED)
        case ev.GoalRemoved():
            may = status.ended
        case _:
            may = True
    return "" if may else f"the goal is {'paused' if state.paused else status}"
