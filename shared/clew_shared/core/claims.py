"""What contradicts an agent's claim that its goal is done: a failed action with no success after it.

Pure rules over the recorded tree; they question a claim and never decide it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from clew_shared.record.model import Result
from clew_shared.text.shorten import in_one_line
from clew_shared.tools import IDLE_TOOLS

if TYPE_CHECKING:
    from clew_shared.record.model import Action, Subtask
    from clew_shared.record.state import State

FAILED = (Result.FAILURE, Result.ERROR, Result.TIMEOUT)
ARGS_CHARS = 200
VALUE_CHARS = 60


def failed_last(subtask: Subtask) -> Action | None:
    """Return the last action of a subtask if it failed; refused and idle ones do not count."""
    last = _last(subtask)
    return last if last and last.result in FAILED else None


def unheeded(state: State) -> tuple[str, Action] | None:
    """Return the goal's last action, with the place of its subtask (`1.2`), if it failed.

    It is then its subtask's last one too, and nothing in the goal has succeeded since.
    """
    lasts = [(place, last) for place, subtask in places(state) if (last := _last(subtask))]
    place, last = max(lasts, key=lambda found: found[1].seq, default=("", None))
    return (place, last) if last and last.result in FAILED else None


def finished_anyway(state: State) -> list[tuple[str, Action]]:
    """Return the places of subtasks that were completed right after a failed action, each with that action."""
    return [
        (place, failed)
        for place, subtask in places(state)
        if subtask.status == "completed" and (failed := failed_last(subtask))
    ]


def places(state: State) -> list[tuple[str, Subtask]]:
    """Return all subtasks in order, each with its place in the tree, counted from 1: `1.2`."""
    return [
        (f"{t}.{s}", subtask)
        for t, task in enumerate(state.goal.tasks, start=1)
        for s, subtask in enumerate(task.subtasks, start=1)
    ]


def described(place: str, action: Action) -> str:
    """Return in one line which action of which subtask failed, and how."""
    what = "command" if action.name == "run_cmd" else "action"
    how = "timed out" if action.result == Result.TIMEOUT else "failed"
    code = "" if action.exit_code is None else f" (exit {action.exit_code})"
    return f"the last {what} of {place} {how}{code}: {_call(action)}"


def question(place: str, action: Action) -> str:
    """Return the message to an agent that calls `finish` after a failed action."""
    failure = described(place, action)
    return (
        f"{failure[0].upper()}{failure[1:]}. Nothing has succeeded since. Fix that first. "
        "If the goal is reached all the same, call finish again."
    )


def _last(subtask: Subtask) -> Action | None:
    acted = (
        action
        for action in reversed(subtask.actions)
        if action.result != Result.BLOCKED and action.name not in IDLE_TOOLS
    )
    return next(acted, None)


def _call(action: Action) -> str:
    if action.name == "run_cmd":
        return in_one_line(_command(action.args.get("cmd", "")), ARGS_CHARS)
    args = ", ".join(
        f"{key}={in_one_line(str(value), VALUE_CHARS)}" for key, value in action.args.items()
    )
    return in_one_line(f"{action.name}({args})", ARGS_CHARS)


def _command(cmd: Any) -> str:
    return shlex.join(map(str, cmd)) if isinstance(cmd, list) else str(cmd)
