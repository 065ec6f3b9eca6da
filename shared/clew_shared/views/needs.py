"""What waits for a person: the goal, why, the question, and the command that answers it. Pure."""

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
    """A goal that waits for a person since `since` (seconds since 1970); `command` is the one that answers."""

    goal: str
    description: str
    why: str
    question: str
    command: str
    since: float


def needs_person(states: Iterable[State]) -> list[Need]:
    """Return what waits for a person, the longest wait first."""
    return sorted(filter(None, map(need, states)), key=lambda one: one.since)


def need(state: State) -> Need | None:
    """Return what a goal waits for if that is a person, otherwise None."""
    if state.goal.status != GoalStatus.BLOCKED:
        return None
    return Need(
        state.goal_id,
        state.goal.description,
        state.reason or str(state.goal.status),
        state.question,
        _answer(state),
        state.updated_at,
    )


def _answer(state: State) -> str:
    goal = shlex.quote(state.goal_id)
    only_accept = state.stranger is not None or state.gone
    return f"clew resume {goal}" if only_accept else f'clew feedback {goal} "…"'
