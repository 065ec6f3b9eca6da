"""What needs a person: the goal, why, the question, and the command that answers it. Pure.

All views share this meaning: nothing but a person can continue the goal, and it was not a person who stopped it.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_shared.record.model import GoalStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clew_shared.record.state import State


@dataclass(frozen=True, slots=True)
class Need:
    """A goal that needs a person since `since` (seconds since 1970); `command` is the one that answers."""

    goal: str
    description: str
    why: str
    question: str
    command: str
    since: float


def is_needed(status: GoalStatus, *, paused: bool, until: float | None) -> bool:
    """Return whether a goal of that status needs a person: it is blocked, or waits without a time (`until`).

    A paused goal does not: a person has stopped it, and knows.
    """
    is_endless = status == GoalStatus.WAITING and until is None and not paused
    return status == GoalStatus.BLOCKED or is_endless


def needs_person(states: Iterable[State]) -> list[Need]:
    """Return what needs a person, the longest wait first."""
    return sorted(filter(None, map(need, states)), key=lambda one: one.since)


def need(state: State) -> Need | None:
    """Return what a goal needs a person for, None where it does not."""
    status = GoalStatus(state.goal.status)
    if not is_needed(status, paused=state.paused, until=state.wait_until):
        return None
    return Need(
        state.goal_id,
        state.goal.description,
        state.reason or str(status),
        state.question,
        _answer(state),
        state.waiting_since if status == GoalStatus.WAITING else state.updated_at,
    )


def _answer(state: State) -> str:
    goal, asked = shlex.quote(state.goal_id), state.question
    is_question = state.goal.status == GoalStatus.BLOCKED and state.stranger is None
    by_words = "`clew feedback" in asked or "`clew " not in asked
    said = is_question and by_words and not state.gone
    return f'clew feedback {goal} "…"' if said else f"clew continue {goal}"
