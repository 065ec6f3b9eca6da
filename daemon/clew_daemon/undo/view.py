"""An undo as it is answered on the control socket: JSON of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from clew_daemon.undo.planning import Gone
from clew_daemon.undo.undo import GitMoved, GitNotes, UndoResult
from clew_shared.record.snapshot_events import GitPlace
from clew_shared.record.state import State
from clew_shared.snapshots.plan import Left, Restored
from clew_shared.text.redact import redact
from clew_shared.views.publish import path_view
from clew_shared.wire.executor import FINAL_FAULTS, NOT_EMPTY

LEFT_OUT_SHOWN = 10
NAMES_SHOWN = 5_000
BYTES_SHOWN = 1_000_000
"""How many names each list of an answer has at most, and how long they may be together."""


def undo_view(state: State, result: UndoResult) -> dict[str, Any]:
    """Return an undo as JSON; lists are cut, and their totals count all."""
    span, plan = result.span, result.plan
    is_subtask = span.scope == "subtask"
    left = [one for one in plan.left if not one.is_gone]
    return {
        "id": state.goal_id,
        "workspace": state.spec.workspace,
        "scope": span.scope,
        "subtask": f"{span.task_idx + 1}.{span.subtask_idx + 1}" if is_subtask else None,
        "plan": result.planned.digest,
        "done": result.done,
        "resumed": result.resumed,
        "overwritten": result.overwritten,
        "restored": result.restored,
        "folders": result.folders,
        "gone": _cut({**path_view(one.name), "why": one.why} | _size(one) for one in result.gone),
        "gone_total": len(result.gone),
        "entries": _cut(
            {**path_view(one.name), "action": action(one)}
            | ({"folder": True} if one.is_folder else {})
            for one in plan.restore
        ),
        "entries_total": len(plan.restore),
        "entries_files": sum(not one.is_folder for one in plan.restore),
        "left": _cut(
            {**path_view(one.name), "reason": one.reason, "action": action(one)}
            | ({} if one.can_be_overwritten else {"stays": True})
            for one in left
        ),
        "left_total": len(left),
        "theirs_total": len(plan.overwritten),
        "changed": _cut(path_view(name) for name in result.changed),
        "failed": _cut(
            {**path_view(name), "reason": why} | ({"stays": True} if why == NOT_EMPTY else {})
            for name, why in result.failed.items()
        ),
        "can_retry": any(why not in FINAL_FAULTS for why in result.failed.values()),
        "moved": result.moved and _moved_view(result.moved),
        **_git_view(result.git),
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


def _git_view(git: GitNotes) -> dict[str, Any]:
    before, now = git.before, git.now
    staged = before and now and {"before": _staged(before), "now": _staged(now)}
    return {
        "git_gone": git.gone,
        "git_found": [path_view(name) for name in git.found],
        "git_made": git.made,
        "staged": staged,
        "stashes": [redact(one) for one in git.stashes[:NAMES_SHOWN]],
        "lost_stash": git.lost_stash,
    }


def _staged(place: GitPlace) -> dict[str, Any]:
    names = [path_view(name) for name in place.staged]
    return {"names": names, "total": None if place.staged_total < 0 else place.staged_total}


def _size(one: Gone) -> dict[str, Any]:
    return {"bytes": one.bytes} if one.bytes else {}


def _cut(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(_bounded(entries))


def _bounded(entries: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    size = 0
    for count, entry in enumerate(entries):
        size += sum(len(str(value)) for value in entry.values())
        if count >= NAMES_SHOWN or size > BYTES_SHOWN:
            return
        yield {name: redact(one) if isinstance(one, str) else one for name, one in entry.items()}
