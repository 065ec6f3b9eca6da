"""What an undo of a goal or a subtask would do, from its record and its store: it blocks, and changes nothing."""

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from clew_daemon.undo.scope import NoSpanError, Rows, Span, Spans
from clew_daemon.undo.view import UndoResult
from clew_shared.record.snapshot_events import LeftOut, SnapshotTaken
from clew_shared.snapshots.entries import Entry, Reason, Reverted
from clew_shared.snapshots.names import folders_above, quoted, unquoted
from clew_shared.snapshots.plan import PLAN_S, Listed, UndoPlan, listed, plan
from clew_shared.snapshots.store import SnapshotStore, StoreError, StoreSlowError

_FOLDER = Entry(stat.S_IFDIR | 0o755, "")


class UndoRefused(Exception):
    """There is nothing that could be undone; the text says why, and what to do."""


def planned_undo(
    store: SnapshotStore, rows: Rows, subtask: tuple[int, int] | None, *, theirs: bool
) -> UndoResult:
    """Plan an undo from all events of a goal; where nothing is left to undo, the reversal of the last one.

    The last event is the snapshot of the present. Raises UndoRefused, StoreError; each in bounded time.
    """
    spans = Spans(rows)
    span = spans.of_goal()
    if span is None:
        raise UndoRefused("there is no snapshot")
    try:
        span = spans.of_subtask(subtask) if subtask else span
    except NoSpanError as error:
        raise UndoRefused(f"{error}; without a subtask, the whole goal is undone") from None
    list_of = listed(store.within(PLAN_S))
    found = planned(rows, list_of, span)
    undo = spans.undo_in_force(span)
    # Folders that are still to be removed may not be empty on the disk.
    pending = [one for one in found.plan.restore if one.wanted or not one.is_folder]
    if not undo or not undo.of or pending or (theirs and found.plan.overwritten):
        return found
    then = [row for row in rows if row[0] <= (undo.last or row[0])]
    left_then = {*undo.left, *(one.name for one in planned(then, list_of, undo.of).plan.left)}
    if not {one.name for one in found.plan.left} <= left_then:
        return found
    back = planned(rows, list_of, undo)
    is_more = back.plan.restore or (back.plan.left and not found.plan.left)
    return back if is_more else found


def planned(rows: Rows, list_of: Listed, span: Span) -> UndoResult:
    """Plan how the workspace is put back to where a span begins; raises StoreError."""
    taken = {seq: event for seq, event in rows if isinstance(event, SnapshotTaken)}
    first, present = taken[span.first], taken[max(taken)]
    try:
        found = _spared(plan(rows, list_of, span.first, span.last), first, present)
    except StoreSlowError:
        why = f"nothing was restored: reading the snapshots took more than {PLAN_S:.0f} s"
        raise StoreError(why) from None
    digest = hashlib.blake2b(repr((span, found.entries)).encode(), digest_size=16).hexdigest()
    return UndoResult(span, found, first, present, digest)


def _spared(found: UndoPlan, first: SnapshotTaken, present: SnapshotTaken) -> UndoPlan:
    """Return a plan that removes no git repository, and changes nothing below a HEAD that has moved."""
    before, now = first.inner, present.inner
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


def gone(found: UndoResult, workspace: str) -> tuple[LeftOut, ...]:
    """Return what is not there any more and in no snapshot: by the goal, or ignored and by anyone; it blocks."""
    if found.first is None:
        return ()
    known = {one.path: one for one in found.first.left_out}
    ignored = found.first.ignored if found.span.scope == "goal" else ()
    missing = (
        LeftOut(path=name, why="ignored")
        for name in ignored
        if not os.path.lexists(Path(workspace) / os.fsdecode(unquoted(name)))
    )
    unknown = (LeftOut(path=one.name, why="") for one in found.plan.gone)
    return *(known.get(one.path, one) for one in unknown), *missing


def restoration(found: UndoPlan, *, theirs: bool = False) -> UndoPlan:
    """Return what is restored, in an order in which places are free: removals, the deepest first, folders, files."""
    entries = [*found.restore, *(found.overwritten if theirs else ())]
    kept = frozenset(kept_folders(entries, found.kept))
    return UndoPlan(tuple(sorted(entries, key=_turn)), kept)


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


def packed(work: UndoPlan) -> bytes:
    """Return a restoration as it is recorded."""
    entries = [[one.name, one.present, one.wanted] for one in work.entries]
    body = ["", entries, sorted(work.kept)]  # an earlier version had a tree in the first place
    return json.dumps(body).encode()


def unpacked(body: bytes | None) -> UndoPlan:
    """Return the restoration that is on record; raises StoreError where that is missing or damaged."""
    try:
        _, entries, *rest = json.loads(body or b"")
        restored = tuple(
            Reverted(name, was and Entry(*was), wanted and Entry(*wanted))
            for name, was, wanted in entries
        )
        return UndoPlan(restored, frozenset(rest[0] if rest else ()))
    except (ValueError, TypeError) as error:
        why = "the record of what the undo restores is missing or damaged"
        raise StoreError(f"{why}: {error}") from None
