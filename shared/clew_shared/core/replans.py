"""What a replan does with work that is pending: it continues it, covers it, or leaves it to do. Pure.

A plan continues a pending subtask by a subtask with the same description, and covers one by its number. Nothing is
guessed from similar words: what the plan neither continues nor covers is still to do after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from clew_shared.record.events import Planned
from clew_shared.text.shorten import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew_shared.record.model import Subtask
    from clew_shared.record.spec import PlannedSubtask, PlannedTask
    from clew_shared.record.state import State

    Covers = Sequence[int] | Literal["all"]


def unknown_number(state: State, level: str | None, covers: Covers) -> str:
    """Return what is wrong with the numbers of pending subtasks that a plan covers, "" for nothing."""
    pending = len(state.replaceable(level)) if level else 0
    wrong = [] if covers == "all" else [n for n in covers if not 0 < n <= pending]
    if not wrong:
        return ""
    return f"`covers` has the number {wrong[0]}, but {pending} subtasks are pending that this plan could replace"


def replan_event(
    state: State,
    tasks: tuple[PlannedTask, ...],
    level: Literal["task", "goal"],
    covers: Covers,
    at: float,
) -> Planned:
    """Return the event of a replan, in which each subtask has the number of the pending one that it continues."""
    pending = state.replaceable(level)
    numbers = _by_description(pending)
    found = tuple(
        task.model_copy(
            update={"subtasks": tuple(_continuing(one, numbers) for one in task.subtasks)}
        )
        for task in tasks
    )
    covered = range(1, len(pending) + 1) if covers == "all" else sorted({*covers})
    return Planned(at=at, tasks=found, replan=level, covers=tuple(covered))


def _by_description(pending: Sequence[Subtask]) -> dict[str, list[int]]:
    """Return the numbers of pending subtasks by description, the last one first."""
    numbers: dict[str, list[int]] = {}
    for number, subtask in reversed([*enumerate(pending, start=1)]):
        numbers.setdefault(_key(subtask.description), []).append(number)
    return numbers


def _continuing(planned: PlannedSubtask, numbers: dict[str, list[int]]) -> PlannedSubtask:
    """Return a subtask of a plan with the number of a pending one of the same description, each used once."""
    if not (same := numbers.get(_key(planned.description))):
        return planned
    return planned.model_copy(update={"continues": same.pop()})


def _key(description: str) -> str:
    return one_line(description).casefold()
