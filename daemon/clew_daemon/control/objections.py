"""When `pause`, `continue`, `resume`, `cancel` and `retry` do not apply to a goal; pure rules of its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_daemon.record.dependencies import called
from clew_daemon.record.goal_limits import has_runbook
from clew_shared.record.model import GoalStatus
from clew_shared.record.transitions import has_follow_up

if TYPE_CHECKING:
    from clew_shared.config.settings import Settings
    from clew_shared.record.state import State

RUNBOOK_DONE = (
    "Its agent is a runbook, which carries out the steps of the goal file and nothing else: "
    "submit another goal for what is missing"
)


def objection(verb: str, state: State, *, runbook: bool) -> str:
    """Return why a request does not apply to a goal, "" if it does; a completed runbook is never reopened.

    `pause --now` does not wait for the action that is carried out.
    """
    status = GoalStatus(state.goal.status)
    match verb:
        case "pause" if state.paused and state.in_flight:
            return "pausing already; --now interrupts its running action"
        case "pause --now" if state.paused and state.in_flight:
            return ""
        case "pause" | "pause --now":
            may = not (status.ended or status is GoalStatus.BLOCKED or state.paused)
        case "resume":
            may = status in (GoalStatus.WAITING, GoalStatus.BLOCKED)
        case "continue" if status is GoalStatus.WAITING:
            may = True
        case "cancel":
            return f"already {status}" if status.ended else ""
        case "rm" | "edit":
            return _no_removal(state) if verb == "rm" else _no_edit(state)
        case _:
            return _no_retry(verb, state, runbook=runbook)
    return "" if may else f"{shown_status(state)}; there is nothing to {verb}"


def _no_removal(state: State) -> str:
    if state.removed:
        return "removed already"
    goal = called(state)
    ended = GoalStatus(state.goal.status).ended
    return "" if ended else f"{shown_status(state)}, not ended: `clew cancel {goal}` first"


def _no_edit(state: State) -> str:
    goal = called(state)
    if state.in_flight:
        return "at work until its running action ends: wait, or `clew pause --now`"
    match GoalStatus(state.goal.status):
        case GoalStatus.IN_PROGRESS:
            return f"at work: `clew pause {goal}` first, then edit it, and `clew continue {goal}`"
        case GoalStatus.COMPLETED:
            return "completed: submit another goal, or say what is missing (`clew feedback`)"
        case _:
            return ""


def _no_retry(verb: str, state: State, *, runbook: bool) -> str:
    match GoalStatus(state.goal.status):
        case GoalStatus.FAILED | GoalStatus.CANCELLED | GoalStatus.BLOCKED:
            return ""
        case GoalStatus.COMPLETED if runbook:
            return f"completed. {RUNBOOK_DONE}"
        case GoalStatus.COMPLETED if has_follow_up(state):
            return ""
        case GoalStatus.COMPLETED:
            goal = called(state)
            return f"completed; say first what is missing (`clew feedback {goal} …`), then `clew {verb} {goal}`"
        case _:
            return f"{shown_status(state)}; there is nothing to {verb}"


def is_runbook(settings: Settings, state: State) -> bool:
    """Return whether a goal's agent is a runbook."""
    return has_runbook(state, settings)


def shown_status(state: State) -> str:
    """Return a goal's status as a person is shown it."""
    return "paused" if state.paused else str(state.goal.status)


def answer(state: State, effect: str) -> dict[str, Any]:
    """Return the answer to a request on one goal; `effect` says what it has done."""
    return {"id": state.goal_id, "status": str(state.goal.status), "said": effect}
