"""An undo as it is answered on the control socket: JSON of bounded size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_shared.text.redact import redact
from clew_shared.views.publish import path_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clew_daemon.undo.undo import GitMoved, UndoResult
    from clew_shared.record.state import State
    from clew_shared.snapshots.plan import Left, Restored

LEFT_OUT_SHOWN = 10
NAMES_SHOWN = 5_000
BYTES_SHOWN = 1_000_000
"""How many names each list of an answer has at most, and how long they may be together."""


def undo_view(state: State, result: UndoResult) -> dict[str, Any]:
    """Return an undo as JSON; lists are cut, and their totals count all."""
    span, plan = result.span, result.plan
    is_subtask = span.scope == "subtask"
    return {
        "id": state.goal_id,
        "workspace": state.spec.workspace,
        "scope": span.scope,
        "subtask": f"{span.task_idx + 1}.{span.subtask_idx + 1}" if is_subtask else None,
        "plan": result.planned.digest,
        "done": result.done,
        "resumed": result.resumed,
        "restored": result.restored,
        "entries": _cut({**path_view(one.name), "action": action(one)} for one in plan.restore),
        "entries_total": len(plan.restore),
        "left": _cut(
            {**path_view(one.name), "reason": one.reason, "action": action(one)}
            for one in plan.left
        ),
        "left_total": len(plan.left),
        "changed": _cut(path_view(name) for name in result.changed),
        "failed": _cut({**path_view(name), "reason": why} for name, why in result.failed.items()),
        "moved": result.moved and _moved_view(result.moved),
        "git_gone": result.git_gone,
        "left_out": result.left_out_total,
        "left_out_names": [
            {**path_view(one.path), "why": one.why} for one in result.left_out[:LEFT_OUT_SHOWN]
        ],
        "ended": state.ended,
    }


def action(one: Restored | Left) -> str:
    """Return what is done to an entry: `remove`, `create`, or `restore` where something else is there."""
    if one.wanted is None:
        return "remove"
    return "create" if one.present is None else "restore"


def _moved_view(moved: GitMoved) -> dict[str, Any]:
    before, now = moved.before, moved.now
    return {
        "before": before.model_dump(include={"branch", "commit"}),
        "now": now.model_dump(include={"branch", "commit"}),
        "staged": before.index != now.index,
        "commits": [redact(line) for line in moved.commits],
    }


def _cut(entries: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    return list(_bounded(entries))


def _bounded(entries: Iterable[dict[str, str]]) -> Iterator[dict[str, str]]:
    size = 0
    for count, entry in enumerate(entries):
        size += sum(map(len, entry.values()))
        if count >= NAMES_SHOWN or size > BYTES_SHOWN:
            return
        yield {name: redact(text) for name, text in entry.items()}
