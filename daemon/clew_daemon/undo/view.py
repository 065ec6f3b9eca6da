"""An undo as it is answered on the control socket: JSON of bounded size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NotRequired, TypedDict, cast

from clew_daemon.undo.undo import GitMoved, UndoResult
from clew_shared.record.state import State
from clew_shared.snapshots.plan import Reverted
from clew_shared.text.redact import redact
from clew_shared.views.publish import path_view
from clew_shared.wire.executor import FINAL_FAULTS, NOT_EMPTY

NAMES_SHOWN = 5_000
BYTES_SHOWN = 1_000_000
"""How many names each list of an answer has at most, and how long they may be together."""


class NameView(TypedDict):
    """A name of the workspace: what is done to it, why it is left, and whether no option overwrites it (`stays`)."""

    path: str
    quoted: NotRequired[str]
    action: NotRequired[str]
    reason: NotRequired[str]
    why: NotRequired[str]
    folder: NotRequired[bool]
    stays: NotRequired[bool]
    bytes: NotRequired[int]


class MovedView(TypedDict):
    """Where HEAD of the user's repository was and is, each with `branch` and `commit`."""

    before: dict[str, str]
    now: dict[str, str]
    commits: list[str]


class UndoView(TypedDict):
    """The answer to `undo`; lists are cut, and their totals count all."""

    id: str
    workspace: str
    scope: str
    subtask: str | None
    plan: str
    done: bool
    resumed: bool
    overwritten: bool
    restored: int
    folders: int
    gone: list[NameView]
    gone_total: int
    entries: list[NameView]
    entries_total: int
    entries_files: int
    left: list[NameView]
    left_total: int
    theirs_total: int
    changed: list[NameView]
    failed: list[NameView]
    can_retry: bool
    moved: MovedView | None
    git_gone: bool
    git_found: list[NameView]
    git_made: bool
    staged: bool
    stashes: list[str]
    lost_stash: str
    left_out: int
    left_out_names: list[NameView]
    ended: bool


def undo_view(state: State, result: UndoResult) -> UndoView:
    """Return an undo as JSON."""
    planned, git = result.planned, result.git
    span, plan = planned.span, planned.plan
    is_subtask = span.scope == "subtask"
    return {
        "id": state.goal_id,
        "workspace": state.spec.workspace,
        "scope": span.scope,
        "subtask": f"{span.place[0] + 1}.{span.place[1] + 1}" if is_subtask else None,
        "plan": planned.digest,
        "done": result.done,
        "resumed": result.resumed,
        "overwritten": result.overwritten,
        "restored": result.restored,
        "folders": result.folders,
        "gone": _cut(_name(one.path, why=one.why) | {"bytes": one.bytes} for one in result.gone),
        "gone_total": len(result.gone),
        "entries": _cut(
            _name(one.name, action=action(one)) | ({"folder": True} if one.is_folder else {})
            for one in plan.restore
        ),
        "entries_total": len(plan.restore),
        "entries_files": sum(not one.is_folder for one in plan.restore),
        "left": _cut(
            _name(one.name, reason=one.reason, action=action(one))
            | ({} if one.can_be_overwritten else {"stays": True})
            for one in plan.left
        ),
        "left_total": len(plan.left),
        "theirs_total": len(plan.overwritten),
        "changed": _cut(map(_name, result.changed)),
        "failed": _cut(
            _name(name, reason=why) | ({"stays": True} if why == NOT_EMPTY else {})
            for name, why in result.failed.items()
        ),
        "can_retry": any(why not in FINAL_FAULTS for why in result.failed.values()),
        "moved": _moved_view(result.moved) if result.moved else None,
        "git_gone": git.gone,
        "git_found": _cut(map(_name, git.found)),
        "git_made": git.made,
        "staged": git.staged,
        "stashes": [redact(one) for one in git.stashes],
        "lost_stash": git.lost_stash,
        "left_out": result.left_out_total,
        "left_out_names": _cut(_name(one.path, why=one.why) for one in result.left_out[:10]),
        "ended": state.ended,
    }


def action(one: Reverted) -> str:
    """Return what is done to an entry: `remove`, `create`, or `restore` where something else is there."""
    if one.wanted is None:
        return "remove"
    return "create" if one.present is None else "restore"


def _moved_view(moved: GitMoved) -> MovedView:
    before, now = (
        {"branch": place.branch, "commit": place.commit} for place in (moved.before, moved.now)
    )
    return {"before": before, "now": now, "commits": [redact(line) for line in moved.commits]}


def _name(name: str, **more: str) -> dict[str, Any]:
    return {**path_view(name), **more}


def _cut(entries: Iterable[dict[str, Any]]) -> list[NameView]:
    """Return the first entries, redacted, as many as fit."""
    found: list[NameView] = []
    size = 0
    for entry in entries:
        size += sum(len(str(value)) for value in entry.values())
        if len(found) >= NAMES_SHOWN or size > BYTES_SHOWN:
            break
        shown = {key: redact(one) if isinstance(one, str) else one for key, one in entry.items()}
        found.append(cast("NameView", shown))
    return found
