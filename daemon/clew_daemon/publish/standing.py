"""The words and marks for where a goal and its tree stand, the same wherever people read them.

It imports nothing of weight: the command line shows them without the models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PAUSED = "paused"
"""What a goal that waits is called where a person has paused it."""

MARKS = {
    "pending": " ",
    "in_progress": ">",
    "completed": "x",
    "failed": "!",
    "blocked": "#",
    "skipped": "-",
}
"""What stands in the brackets before a task or a subtask, by its status, wherever a tree is shown to people."""


def standing(goal: Mapping[str, Any] | str, verified: bool | None = None) -> str:
    """Return a goal's status in the words that people read: `completed, unverified` without checks, `paused`.

    `goal` is its entry of `clew status --json`, or only its status; then `verified` says whether checks passed.
    """
    if isinstance(goal, str):
        return "completed, unverified" if goal == "completed" and verified is False else goal
    if goal["status"] == "waiting" and goal.get("paused"):
        return PAUSED
    return standing(str(goal["status"]), goal.get("verified"))
