"""What an undo of a goal or a subtask would do, from its record and its store: it blocks, and changes nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew_daemon.undo import scope
from clew_daemon.undo.scope import Span, UndoInForce
from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.snapshot_events import GitPlace
from clew_shared.snapshots.entries import Entry
from clew_shared.snapshots.names import quoted, unquoted
from clew_shared.snapshots.plan import (
    Left,
    Reason,
    Restored,
    UndoPlan,
    above_removed,
    folders_above,
    folders_of_others,
    plan,
)
from clew_shared.snapshots.steps import PLAN_S, comparing, steps
from clew_shared.snapshots.store import SnapshotStore, StoreError, StoreSlowError

Rows = Sequence[tuple[int, ev.Event]]


class UndoRefused(Exception):
    """There is nothing that could be undone; the text says why, and what to do."""


_FOLDER = Entry(stat.S_IFDIR | 0o755, "")


@dataclass(frozen=True, slots=True)
class PlannedUndo:
    """What is undone, between which snapshots; `tree` is that of the snapshot `first`, which is gone back to.

    `others` are folders that someone else made: they stay even if they become empty. `digest` is of what would be
    restored and left, for comparison with an earlier plan.
    """

    span: Span
    plan: UndoPlan
    tree: str
    first: snap.SnapshotTaken | None = None
    others: tuple[str, ...] = ()
    digest: str = ""

    @property
    def git(self) -> GitPlace | None:
        """Where the user's repository stood at that snapshot."""
        return self.first.git if self.first else None


@dataclass(frozen=True, slots=True)
class Gone:
    """A quoted name; `why` as in `LeftOut`, or `ignored`; `bytes` is 0 where the size is not known."""

    name: str
    why: str
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Restoration:
    """What is restored, from the snapshot `tree`; folders of `others` stay even if they become empty."""

    tree: str
    entries: list[Restored]
    others: tuple[str, ...] = ()

    def packed(self) -> bytes:
        """Return it as it is recorded."""
        entries = [[one.name, one.present, one.wanted] for one in self.entries]
        return json.dumps([self.tree, entries, self.others]).encode()


def planned_undo(
    store: SnapshotStore, rows: Rows, subtask: tuple[int, int] | None, *, theirs: bool
) -> PlannedUndo:
    """Plan an undo from all events of a goal; where nothing is left to undo, the reversal of the last one.

    The last event is the snapshot of the present. Raises UndoRefused, StoreError; each in bounded time.
    """
    span = _span(rows, subtask)
    known = _Known(store, rows, span)
    found = known.plan(span)
    last = scope.undo_in_force(rows, span)
    if last and not _is_pending(found, last, theirs=theirs):
        span, found = _reversal(known, last, found) or (span, found)
    return known.planned(span, found, theirs=theirs)


def planned_restore(store: SnapshotStore, rows: Rows, span: Span) -> PlannedUndo:
    """Plan how the workspace is put back to where a subtask began, for the next attempt; raises as planned_undo."""
    known = _Known(store, rows, span)
    return known.planned(span, known.plan(span), theirs=False)


class _Known:
    """What is on record since the beginning of a span; whatever compares too long raises StoreError."""

    def __init__(self, store: SnapshotStore, rows: Rows, span: Span) -> None:
        self._between = comparing(store.within(PLAN_S))
        self._taken = {s: e for s, e in rows if isinstance(e, snap.SnapshotTaken)}
        with _in_time():
            self._steps = steps(self._between, rows, span.first)

    def plan(self, span: Span, until: int | None = None) -> UndoPlan:
        """Plan as of snapshot number `until`, or of the present."""
        then = [step for step in self._steps if step.seq <= (until or step.seq)]
        now = max(seq for seq in self._taken if seq <= (until or seq))
        with _in_time():
            found = plan(then, self._between, span.first, span.last)
        return spared(found, self._taken[span.first].inner, self._taken[now].inner)

    def planned(self, span: Span, found: UndoPlan, *, theirs: bool) -> PlannedUndo:
        first = self._taken[span.first]
        undone = [*found.restore, *(found.overwritten if theirs else ())]
        with _in_time():
            folders = folders_of_others(self._steps, self._between, span.first)
        others = above_removed(undone, folders)
        return PlannedUndo(span, found, first.tree, first, others, _digest(span, found))


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    try:
        yield
    except StoreSlowError:
        text = f"nothing was restored: comparing the snapshots took more than {PLAN_S:.0f} s"
        raise StoreError(text) from None


def _span(rows: Rows, subtask: tuple[int, int] | None) -> Span:
    whole = scope.of_goal(rows)
    if whole is None:
        raise UndoRefused("there is no snapshot")
    try:
        return scope.of_subtask(rows, *subtask) if subtask else whole
    except scope.NoSpanError as error:
        raise UndoRefused(f"{error}; without a subtask, the whole goal is undone") from None


def _digest(span: Span, found: UndoPlan) -> str:
    return hashlib.blake2b(repr((span, found)).encode(), digest_size=16).hexdigest()


def _is_pending(found: UndoPlan, last: UndoInForce, *, theirs: bool) -> bool:
    """Return whether something is left to undo, but for folders that the last undo could not remove."""
    kept = [
        one
        for one in found.restore
        if one.name in last.left and one.wanted is None and one.is_folder
    ]
    return len(found.restore) > len(kept) or (theirs and bool(found.overwritten))


def _reversal(known: _Known, last: UndoInForce, found: UndoPlan) -> tuple[Span, UndoPlan] | None:
    """Return the reversal of the last undo of the same goal or subtask, None where that is not what is asked for.

    Files that it had left already do not count as something else that is left to undo.
    """
    if not {one.name for one in found.left} <= _left_by(known, last):
        return None
    back = known.plan(last.span)
    is_shown = back.restore or (back.left and not found.left)
    return (last.span, back) if is_shown else None


def _left_by(known: _Known, undo: UndoInForce) -> set[str]:
    """Return what an undo has left as it was, with what someone else changed while it went on."""
    after = known.plan(undo.of, undo.span.last)
    return {*undo.left, *(one.name for one in after.left)}


def gone(planned: PlannedUndo, workspace: str) -> tuple[Gone, ...]:
    """Return what the snapshot gone back to has not, and is not there now: by the goal, or ignored and by anyone."""
    if planned.first is None:
        return ()
    known = {one.path: one for one in planned.first.left_out}
    found = []
    for left in planned.plan.left:
        if left.is_gone:
            one = known.get(left.name)
            found.append(Gone(left.name, one.why if one else "", one.bytes if one else 0))
    ignored = planned.first.ignored if planned.span.scope == "goal" else ()
    root = Path(workspace)
    missing = (one for one in ignored if not os.path.lexists(root / os.fsdecode(unquoted(one))))
    return (*found, *(Gone(name, "ignored") for name in missing))


def spared(
    found: UndoPlan, before: Mapping[str, str] | None, now: Mapping[str, str] | None
) -> UndoPlan:
    """Return a plan that removes no git repository, and puts back no files below a HEAD that has moved.

    `before` and `now` are the commits of the repositories below the workspace at the snapshot that is gone back to and
    in the present, None where they are not known.
    """
    reasons = _reasons(found, before or {}, now or {}, known=before is not None)
    if not reasons:
        return found
    restore: list[Restored] = []
    left: list[Left] = []
    repositories: set[str] = set()
    entries: list[Restored | Left] = [*found.restore, *found.left]
    for one in entries:
        above = (one.name, *folders_above(one.name))
        where = next((folder for folder in above if folder in reasons), "")
        if where and (one.wanted is None or reasons[where] == "commits"):
            repositories.add(where)
        elif isinstance(one, Left):
            left.append(one)
        else:
            restore.append(one)
    left += [Left(one, reasons[one], _FOLDER, None) for one in repositories]
    return UndoPlan(tuple(restore), tuple(sorted(left, key=lambda one: one.name)))


def _reasons(
    found: UndoPlan, before: Mapping[str, str], now: Mapping[str, str], *, known: bool
) -> dict[str, Reason]:
    """Return why what is in a repository is left, by its folder."""
    reasons: dict[str, Reason] = dict.fromkeys(_removed(found), "repository")
    for path, commit in now.items() if known else ():
        if before.get(path) != commit:
            reasons[path] = "commits" if path in before else "repository"
    return reasons


def _removed(found: UndoPlan) -> set[str]:
    """Return the folders that would be removed and have what makes a git repository, like a `.git` that was renamed."""
    entries: list[Restored | Left] = [*found.restore, *found.left]
    removed = [unquoted(one.name) for one in entries if one.wanted is None]
    heads = {path.removesuffix(b"/HEAD") for path in removed if path.endswith(b"/HEAD")}
    for part in (b"/objects/", b"/refs/"):
        heads &= {folder for path in removed for folder in _holding(path + b"/", part)}
    return set(map(quoted, heads))


def _holding(path: bytes, part: bytes) -> Iterator[bytes]:
    """Yield the folders on a path that hold a part of it."""
    at = path.find(part)
    while at >= 0:
        yield path[:at]
        at = path.find(part, at + 1)


def restoration(
    tree: str, entries: Iterable[Restored], others: tuple[str, ...] = ()
) -> Restoration:
    """Return the restoration of entries in the order in which each finds its place free.

    What is removed comes first, the deepest first; then folders, then files and symlinks.
    """
    return Restoration(tree, sorted(entries, key=_turn), others)


def _turn(one: Restored) -> tuple[int, int, str]:
    if one.wanted is None:
        return 0, -one.name.count("/"), one.name
    return (1 if stat.S_ISDIR(one.wanted.mode) else 2), 0, one.name


def unpacked(body: bytes | None) -> Restoration:
    """Return the restoration that is on record; raises StoreError where that is missing or damaged.

    Earlier versions recorded no folders of others.
    """
    try:
        tree, entries, *rest = json.loads(body or b"")
        restored = [Restored(name, _entry(was), _entry(wanted)) for name, was, wanted in entries]
        others = tuple(rest[0]) if rest else ()
    except (ValueError, TypeError) as error:
        raise StoreError(
            f"the record of what the undo restores is missing or damaged: {error}"
        ) from None
    return Restoration(tree, restored, others)


def _entry(value: Any) -> Entry | None:
    return None if value is None else Entry(*value)
