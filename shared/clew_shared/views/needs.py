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
    if state.goal.status == GoalStatus.BLOCKED:
        command = _answer(state)
    elif state.goal.status == GoalStatus.FAILED:
        command = f"clew retry {shlex.quote(state.goal_id)}"
    elif state.paused and not state.ended:
        command = f"clew resume {shlex.quote(state.goal_id)}"
    else:
        return None
    why = state.reason or ("paused" if state.paused else str(state.goal.status))
    return Need(
        state.goal_id, state.goal.description, why, state.question, command, state.updated_at
    )


def _answer(state: State) -> str:
    goal = shlex.quote(state.goal_id)
    only_accept = state.stranger is not None or state.gone
    return f"clew resume {goal}" if only_accept else f'clew feedback {goal} "…"'
