"""Changes of one goal that the views offer: the request of each, and the command line that does the same."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from clew_daemon.control import requests as rq
from clew_daemon.reading.goal_list import ENDED, GoalView


@dataclass(frozen=True, slots=True)
class GoalCommand:
    """A change of one goal: the request, and the command line that sends the same."""

    request: rq.ControlRequest
    command: str


_CHANGES = {
    "pause": rq.PauseRequest,
    "continue": rq.ContinueRequest,
    "resume": rq.ResumeRequest,
    "cancel": rq.CancelRequest,
    "retry": rq.RetryRequest,
}


def change(verb: str, goal: str) -> GoalCommand:
    """Return `pause`, `continue`, `resume`, `cancel` or `retry` of a goal."""
    return GoalCommand(_CHANGES[verb](goal), f"clew {verb} {shlex.quote(goal)}")


def changes_of(goal: GoalView) -> list[GoalCommand]:
    """Return which of `continue`, `pause` and `cancel` apply to a goal now."""
    ended = goal["status"] in ENDED
    may = {
        "continue": goal["status"] in ("waiting", "blocked", "failed", "cancelled"),
        "pause": not (ended or goal["paused"] or goal["status"] == "blocked"),
        "cancel": not ended,
    }
    return [change(verb, goal["id"]) for verb, applies in may.items() if applies]


def feedback(goal: str, text: str) -> GoalCommand:
    """Return a message to a goal's agent."""
    request = rq.FeedbackRequest(goal, text)
    return GoalCommand(request, f"clew feedback {shlex.quote(goal)} {shlex.quote(text)}")


def unblock(goal: str, signature: str) -> GoalCommand:
    """Return that a refused action is allowed again."""
    request = rq.UnblockRequest(goal, signature)
    return GoalCommand(request, f"clew unblock {shlex.quote(goal)} {shlex.quote(signature)}")
