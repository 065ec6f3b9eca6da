"""What needs a person, and the command that answers it. Pure.

All views share this meaning: nothing but a person can continue the goal, and it was not a person who stopped it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from clew_shared.record.model import GoalStatus

if TYPE_CHECKING:
    from clew_shared.record.state import State


def is_needed(status: GoalStatus, *, paused: bool, until: float | None) -> bool:
    """Return whether a goal of that status needs a person: it is blocked, or waits without a time (`until`).

    A paused goal does not: a person has stopped it, and knows.
    """
    is_endless = status == GoalStatus.WAITING and until is None and not paused
    return status == GoalStatus.BLOCKED or is_endless


def needs_person(state: State) -> bool:
    """Return whether a goal needs a person."""
    status = GoalStatus(state.goal.status)
    return is_needed(status, paused=state.paused, until=state.wait_until)


def answer(state: State) -> str:
    """Return the command that answers a goal which needs a person."""
    goal, asked = shlex.quote(state.goal_id), state.question
    is_question = state.goal.status == GoalStatus.BLOCKED and state.stranger is None
    by_words = "`clew feedback" in asked or "`clew " not in asked
    said = is_question and by_words and not state.gone
    return f'clew feedback {goal} "…"' if said else f"clew continue {goal}"
