"""What an undo of a goal or a subtask would do, from its record and its store: it blocks, and changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from clew_daemon.undo import scope
from clew_daemon.undo.scope import Rows, Span
from clew_shared.record import snapshot_events as snap
from clew_shared.record.snapshot_events import GitPlace
from clew_shared.snapshots.entries import Entry
from clew_shared.snapshots.names import folders_above, quoted, unquoted
from clew_shared.snapshots.plan import PLAN_S, Listed, Reason, Reverted, UndoPlan, listed, plan
from clew_shared.snapshots.store import SnapshotStore, StoreError, StoreSlowError

_FOLDER = Entry(stat.S_IFDIR | 0o755, "")


class UndoRefused(Exception):
    """There is nothing that could be undone; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class PlannedUndo:
    """What is undone, between which snapshots.

    `first` is the snapshot that is gone back to, None for an undo that was cut off. `digest` is of what would be
    restored and left, for comparison with an earlier plan.
    """

    span: Span
    plan: UndoPlan
    first: snap.SnapshotTaken | None = None
    digest: str = ""

    @property
    def git(self) -> GitPlace | None:
        """Where the user's repository stood then."""
        return self.first.git if self.first else None


@dataclass(frozen=True, slots=True)
class Restoration:
    """What is restored, in the order in which each finds its place free; `kept` as in UndoPlan."""

    entries: list[Reverted]
    kept: tuple[str, ...] = ()

    def packed(self) -> bytes:
        """Return it as it is recorded."""
        entries = [[one.name, one.present, one.wanted] for one in self.entries]
        return json.dumps(["", entries, self.kept]).encode()  # an earlier version had a tree there


def planned_undo(
    store: SnapshotStore, rows: Rows, subtask: tuple[int, int] | None, *, theirs: bool
) -> PlannedUndo:
    """Plan an undo from all events of a goal; where nothing is left to undo, the reversal of the last one.

    The last event is the snapshot of the present. Raises UndoRefused, StoreError; each in bounded time.
    """
    span = scope.of_goal(rows)
    if span is None:
        raise UndoRefused("there is no snapshot")
    try:
        span = scope.of_subtask(rows, *subtask) if subtask else span
    except scope.NoSpanError as error:
        raise UndoRefused(f"{error}; without a subtask, the whole goal is undone") from None
    list_of = listed(store.within(PLAN_S))
    found = _planned(rows, list_of, span)
    last = scope.undo_in_force(rows, span)
    if last is None or _is_pending(found.plan, theirs=theirs):
        return found
    then = [row for row in rows if row[0] <= (last.span.last or row[0])]
    left_then = {*last.left, *(one.name for one in _planned(then, list_of, last.of).plan.left)}
    if not {one.name for one in found.plan.left} <= left_then:
        return found
    back = _planned(rows, list_of, last.span)
    is_more = back.plan.restore or (back.plan.left and not found.plan.left)
    return back if is_more else found


def planned_restore(store: SnapshotStore, rows: Rows, span: Span) -> PlannedUndo:
    """Plan how the workspace is put back to where a subtask began, for the next attempt; raises StoreError."""
    return _planned(rows, listed(store.within(PLAN_S)), span)


def _planned(rows: Rows, list_of: Listed, span: Span) -> PlannedUndo:
    first = dict(rows)[span.first]
    assert isinstance(first, snap.SnapshotTaken)  # noqa: S101 - a span begins with one
    try:
        found = spared(plan(rows, list_of, span.first, span.last), rows, span.first)
    except StoreSlowError:
        why = f"nothing was restored: reading the snapshots took more than {PLAN_S:.0f} s"
        raise StoreError(why) from None
    digest = hashlib.blake2b(repr((span, found.entries)).encode(), digest_size=16).hexdigest()
    return PlannedUndo(span, found, first, digest)


def _is_pending(found: UndoPlan, *, theirs: bool) -> bool:
    """Return whether something is left to undo, but for folders, which may not be empty on the disk."""
    kept = all(one.wanted is None and one.is_folder for one in found.restore)
    return not kept or (theirs and bool(found.overwritten))


def spared(found: UndoPlan, rows: Rows, first: int) -> UndoPlan:
    """Return a plan that removes no git repository, and changes nothing below a HEAD that has moved.

    `rows` are the events up to the snapshot of the present, `first` is the snapshot that is gone back to.
    """
    taken = {seq: event for seq, event in rows if isinstance(event, snap.SnapshotTaken)}
    before, now = taken[first].inner, taken[max(taken)].inner
    reasons: dict[str, Reason] = dict.fromkeys(_removed(found), "repository")
    if before is not None and now is not None:  # an earlier version did not look
        reasons |= {
            path: "commits" if path in before else "repository"
            for path, commit in now.items()
            if before.get(path) != commit
        }
    kept: list[Reverted] = []
    repositories: set[str] = set()
    for one in found.entries:
        above = (one.name, *folders_above(one.name))
        where = next((folder for folder in above if folder in reasons), "")
        if where and (one.wanted is None or reasons[where] == "commits"):
            repositories.add(where)
        else:
            kept.append(one)
    kept += [Reverted(one, _FOLDER, None, reasons[one]) for one in repositories]
    return replace(found, entries=tuple(sorted(kept, key=lambda one: one.name)))


def _removed(found: UndoPlan) -> set[str]:
    """Return the folders that would be removed and have what makes a repository: a `.git` that was renamed, say."""
    removed = {unquoted(one.name) for one in found.entries if one.wanted is None}
    there = removed | {path[:at] for path in removed for at in range(len(path)) if path[at] == 47}
    heads = {path.removesuffix(b"/HEAD") for path in removed if path.endswith(b"/HEAD")}
    return {quoted(one) for one in heads if {one + b"/objects", one + b"/refs"} <= there}


def gone(planned: PlannedUndo, workspace: str) -> list[snap.LeftOut]:
    """Return what is not there any more and in no snapshot: by the goal, or ignored and by anyone; it blocks."""
    if planned.first is None:
        return []
    known = {one.path: one for one in planned.first.left_out}
    ignored = planned.first.ignored if planned.span.scope == "goal" else ()
    root = Path(workspace)
    return [
        *(known.get(one.name) or snap.LeftOut(path=one.name, why="") for one in planned.plan.gone),
        *(
            snap.LeftOut(path=name, why="ignored")
            for name in ignored
            if not os.path.lexists(root / os.fsdecode(unquoted(name)))
        ),
    ]


def restoration(planned: PlannedUndo, *, theirs: bool = False) -> Restoration:
    """Return what is restored: removals, the deepest first, then folders, then files and symlinks."""
    found = planned.plan
    entries = [*found.restore, *(found.overwritten if theirs else ())]
    return Restoration(sorted(entries, key=_turn), kept_folders(entries, found.kept))


def kept_folders(entries: Iterable[Reverted], kept: Iterable[str]) -> tuple[str, ...]:
    """Return of each entry that is removed the deepest folder above it, or itself, among `kept`."""
    known = frozenset(kept)
    removed = (one.name for one in entries if one.wanted is None) if known else ()
    above = ((name, *folders_above(name)) for name in removed)
    found = {next((folder for folder in names if folder in known), "") for names in above}
    return tuple(sorted(found - {""}))


def _turn(one: Reverted) -> tuple[int, int, str]:
    if one.wanted is None:
        return 0, -one.name.count("/"), one.name
    return (1 if stat.S_ISDIR(one.wanted.mode) else 2), 0, one.name


def unpacked(body: bytes | None) -> Restoration:
    """Return the restoration that is on record; raises StoreError where that is missing or damaged."""
    try:
        _, entries, *rest = json.loads(body or b"")
        restored = [
            Reverted(name, was and Entry(*was), wanted and Entry(*wanted))
            for name, was, wanted in entries
        ]
        return Restoration(restored, tuple(rest[0]) if rest else ())
    except (ValueError, TypeError) as error:
        why = "the record of what the undo restores is missing or damaged"
        raise StoreError(f"{why}: {error}") from None
