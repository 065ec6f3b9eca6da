"""The argument SUBTASK: `2.1` is the first subtask of the second task, as `clew history` shows it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from clew_daemon.reading.errors import CliError
from clew_daemon.reading.sanitize import clean, short

if TYPE_CHECKING:
    from clew_shared.record.model import Goal

SHOWN_MAX = 20
_NUMBER = re.compile(r"#?(?:(\d{1,6})\.)?(\d{1,6})")

Position = tuple[int, int]
"""A task's index and that of a subtask in it, from 0."""


subtask = click.argument(
    "subtask",
    metavar="[SUBTASK]",
    required=False,
    help="Only this subtask: 2.1 is the first one of the second task.",
)


def numbered(goal: Goal) -> list[tuple[str, str]]:
    """Return number and description of each subtask."""
    return [
        (f"{t + 1}.{s + 1}", subtask.description)
        for t, task in enumerate(goal.tasks)
        for s, subtask in enumerate(task.subtasks)
    ]


def position(name: str, goal: Goal, number: str | None) -> Position | None:
    """Return which subtask a number names, None for none; CliError lists the subtasks of the goal `name`.

    In a goal with one task, the subtask's number alone is enough.
    """
    if number is None:
        return None
    found = _NUMBER.fullmatch(number)
    if found and (found[1] or len(goal.tasks) == 1):
        at = int(found[1] or 1) - 1, int(found[2]) - 1
        if f"{at[0] + 1}.{at[1] + 1}" in dict(numbered(goal)):
            return at
    raise CliError(_unknown(name, goal, number))


def _unknown(name: str, goal: Goal, number: str) -> str:
    known = numbered(goal)
    if not known:
        return f"{name} has no subtasks yet"
    lines = [f"  {one}  {short(text)}" for one, text in known[:SHOWN_MAX]]
    more = len(known) - SHOWN_MAX
    lines += [f"  … {more} more: clew status {name}"] if more > 0 else []
    return "\n".join([f"{name} has no subtask {clean(number)!r}; its subtasks:", *lines])
