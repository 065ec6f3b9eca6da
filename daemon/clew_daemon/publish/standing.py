"""The status of a goal, the marks of its tree and what became of its workspace, in the same words everywhere.

It imports nothing expensive: the command line shows them without the models.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from clew_shared.proof.label import words

PAUSED = "paused"  # the status of a waiting goal that a person has paused
STOPPED = "stopped"  # of one in progress while no daemon runs, whose views say so
# The mark in brackets before a task or a subtask, by its status.
MARKS = {
    "pending": " ",
    "in_progress": ">",
    "completed": "x",
    "failed": "!",
    "blocked": "#",
    "skipped": "-",
}
# How a step in progress is shown in a goal with this status, on which no worker is working.
AT_REST = {"blocked": "blocked", "failed": "pending", "cancelled": "pending"}


def after_failure(goal: str, agent: str | None) -> list[str]:
    """Return what a person can do about a failed goal, a line each; a runbook takes no advice."""
    lines = [
        f"- when you have fixed the cause, continue: `clew continue {goal}`",
        f"- correct its text, agent, checks or limits, then continue: `clew edit {goal}`",
    ]
    advice = f'- say what to do differently, then continue: `clew feedback {goal} "…"`'
    return ["You can:", *lines, *([] if agent == "runbook" else [advice])]


def ground_facts(restored: int, kept: str | None, left: Sequence[str]) -> list[str]:
    """Return what became of the workspace before an attempt: restored files, why not others, those that were left."""
    facts = {
        f"{restored} {'file' if restored == 1 else 'files'} restored": restored,
        f"not restored: {kept}": kept,
        f"left as they are: {', '.join(left)}": left,
    }
    return [text for text, applies in facts.items() if applies]


def step_status(status: str, goal: str) -> str:
    """Return the status of a task or a subtask as people read it, in a goal of this status."""
    return AT_REST.get(goal, status) if status == "in_progress" else status


def is_told(text: str, *others: str | None) -> bool:
    """Return whether a text is in one of others; white space and a cut end do not count."""
    said = " ".join(text.split()).rstrip(".…")
    return any(said in " ".join(other.split()) for other in others if other)


def standing(goal: Mapping[str, Any]) -> str:
    """Return the status of a goal's view as people read it: `completed, proven`, `completed, unverified`, `paused`."""
    status, made = str(goal["status"]), goal.get("proof")
    if status == "waiting" and goal.get("paused"):
        return PAUSED
    if status == "in_progress" and goal.get("stopped"):
        return STOPPED
    if status != "completed":
        return status
    if goal.get("verified") is False:
        return "completed, unverified"
    return f"completed, {words(made['label'], made['why'], made['accepted'])}" if made else status
