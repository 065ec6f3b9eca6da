"""Whose each change is, and what undo restores; pure rules over the record (docs/snapshots.md).

A name is the goal's if it was changed during an action or a check, and someone else's if it was changed while none was
running. What is someone else's is never restored. Objects are compared only where no executor has watched, or not all
names are on record.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from clew_shared.record import events as ev
from clew_shared.snapshots.entries import (
    LEFT_OUT,
    Changes,
    Listing,
    Reason,
    Reverted,
    differences,
    file_of,
    listing,
)
from clew_shared.snapshots.names import folders_above

if TYPE_CHECKING:
    from clew_shared.record.touched import Touched
    from clew_shared.snapshots.store import SnapshotStore

PLAN_S = 120.0  # How long reading snapshots for one undo or diff may take

UNWATCHED = ("goal", "worker", "undo")
"""The moments at which a new executor takes a snapshot, which has not seen what was before."""

Row = tuple[int, ev.Event]
Listed = Callable[[str], "Listing"]
"""Returns the entries of a snapshot by its tree."""


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """What an undo restores and leaves, sorted by name; `kept` has the folders that stay, even if they become empty."""

    entries: tuple[Reverted, ...] = ()
    kept: frozenset[str] = frozenset()

    @property
    def restore(self) -> list[Reverted]:
        """What is restored."""
        return [one for one in self.entries if not one.reason]

    @property
    def left(self) -> list[Reverted]:
        """What is left as it is, but for what is gone."""
        return [one for one in self.entries if one.reason and not one.is_gone]

    @property
    def gone(self) -> list[Reverted]:
        """What is not there any more, and no snapshot has it as it was."""
        return [one for one in self.entries if one.is_gone]


def listed(store: SnapshotStore) -> Listed:
    """Return what lists the snapshots of a store, each one once; it blocks, and raises StoreError."""
    return cache(lambda tree: listing(store, tree))


def with_store(rows: Iterable[Row]) -> list[Row]:
    """Return the events of which the store has the snapshots: those since it was removed last, or all."""
    found: list[Row] = []
    for row in rows:
        found.append(row)
        if isinstance(row[1], ev.SnapshotsMissing) and row[1].removed:
            found.clear()
    return found


def plan(rows: Sequence[Row], list_of: Listed, first: int, last: int | None = None) -> UndoPlan:
    """Return what undoing the goal's changes after snapshot `first` does; `last`: only those up to that snapshot.

    `rows` are all events of the goal, oldest first, up to the snapshot of the present. `first` and `last` are numbers
    of snapshots.
    """
    own, foreign, unknown, others = (set[str]() for _ in range(4))
    for seq, window in _windows(rows, first):
        names = window.closed(list_of)
        others |= names[1]
        for known, more in zip((own, foreign, unknown), names, strict=True):
            known.update(more if last is None or seq <= last else ())
    trees = {seq: event.tree for seq, event in rows if isinstance(event, ev.SnapshotTaken)}
    was, now = list_of(trees[first]), list_of(trees[max(trees)])
    end = now if last is None else list_of(trees[last])
    changed = differences(was, now)
    closed = {name for one in (was, now, end) for name, entry in one.items() if entry == LEFT_OUT}
    above_closed = {above for name in closed for above in folders_above(name)}
    entries = []
    in_the_way = {name for name, entry in now.items() if not stat.S_ISDIR(entry.mode)}
    # What is in the place of a folder comes before what was in that.
    for name in sorted(changed.keys() & own):
        wanted, present = changed[name]
        reason: Reason = ""
        hidden = closed and not closed.isdisjoint((name, *folders_above(name)))
        if hidden or (wanted is None and name in above_closed):
            reason = "left_out"
        elif name in foreign:
            reason = "shared"
        elif wanted and not in_the_way.isdisjoint(folders_above(name)):
            reason = "shared"  # where its folder was there is a file that stays
        elif name in unknown:
            reason = "unknown"
        elif present != file_of(end.get(name)):
            reason = "later"
        if not reason:
            in_the_way.discard(name)
        entries.append(Reverted(name, present, wanted, reason))
    return UndoPlan(tuple(entries), frozenset(others | folders_of(was)))


def folders_of(listing: Listing) -> set[str]:
    """Return the folders of a snapshot, also those that are not empty."""
    empty = {name for name, entry in listing.items() if stat.S_ISDIR(entry.mode)}
    return empty | {above for name in listing for above in folders_above(name)}


def own_changes(rows: Sequence[Row], list_of: Listed, first: int) -> Changes:
    """Return what the goal changed from snapshot `first` to the last one; `rows` as in `plan`."""
    return {one.name: (one.wanted, one.present) for one in plan(rows, list_of, first).entries}


def as_others_left(rows: Sequence[Row], list_of: Listed, first: int) -> dict[str, str]:
    """Return the tree of the snapshot that has a name as someone else left it, by name.

    Someone else is who changed it between two snapshots after `first` and the goal did not, while nothing of the goal
    was alive: where its agent changes files itself, nobody can be told from it. `rows` as in `plan`.
    """
    found: dict[str, str] = {}
    for _, window in _windows(rows, first):
        if window.is_calm:
            own, foreign, unknown = window.closed(list_of)
            found |= dict.fromkeys(foreign - own - unknown, window.after)
    return found


def _windows(rows: Sequence[Row], first: int) -> Iterator[tuple[int, _Window]]:
    """Yield what is on record of the time before each snapshot after the `first`, with that snapshot's number."""
    taken = {seq: event for seq, event in rows if isinstance(event, ev.SnapshotTaken)}
    shown = {of for event in taken.values() for of in event.cut_off}
    began = {seq: event.first for seq, event in rows if isinstance(event, ev.UndoStarted)}
    window = _Window()
    for seq, event in rows:
        match event:
            case ev.WorkerExited():
                window.rested = True
            case ev.ActionFinished():
                window.touch(event.touched)
            case ev.ActionInterrupted():
                window.interrupted = True
                window.lost |= event.of not in shown
            case ev.UndoFinished():
                back = taken.get(began.get(event.of, 0))
                window.undone = back.tree if back else ""
            case ev.SnapshotTaken():
                window.touch(event.touched)
                window.cut_off = bool(event.cut_off)
                window.watched = event.moment not in UNWATCHED
                window.after = event.tree
                if seq > first:
                    yield seq, window
                window = _Window(before=event.tree)
            case _:
                pass


@dataclass(slots=True)
class _Window:
    """What is on record of the time between two snapshots, whose trees are `before` and `after`.

    `own` has each name's object after the action. `all_own`, `all_foreign`: there were more names than are listed.
    `watched`: the executor that took the second one has seen everything since the first. `interrupted`: an action was
    cut off, `lost`: unseen. `cut_off`: the second snapshot shows what an action did that was cut off. `undone`: the
    tree that an undo went back to. `left`: something that the goal has left running was alive. `rested`: its worker
    has ended.
    """

    before: str = ""
    after: str = ""
    own: dict[str, str] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    all_own: bool = False
    all_foreign: bool = False
    watched: bool = True
    interrupted: bool = False
    lost: bool = False
    cut_off: bool = False
    undone: str | None = None
    left: bool = False
    rested: bool = False

    @property
    def is_calm(self) -> bool:
        """Whether nothing of the goal was alive but what is on record."""
        unseen = self.left or self.interrupted or self.cut_off
        return not unseen and (self.watched or self.rested)

    def touch(self, touched: Touched) -> None:
        self.own |= dict(touched.own)
        self.foreign |= set(touched.foreign)
        self.all_own |= touched.own_cut
        self.all_foreign |= touched.foreign_total != len(touched.foreign)  # more than is listed
        self.left |= touched.left

    def closed(self, list_of: Listed) -> tuple[set[str], set[str], set[str]]:
        """Return the names of the goal, of others, and of no one knows whom."""
        own, foreign = set(self.own), set(self.foreign)
        seen = self.watched and self.undone is None  # someone may write what an undo has restored
        if seen and not (self.all_own or self.all_foreign or self.lost or self.cut_off):
            return own, foreign, set()
        now = list_of(self.after)
        found = differences(list_of(self.before), now).keys()
        back = list_of(self.undone) if self.undone else {}
        undone = {
            one for one in found if self.undone and file_of(now.get(one)) == file_of(back.get(one))
        }
        # A folder that is not empty is no entry.
        names = {one: entry.id or "/" for one, entry in now.items()}
        explained = {
            one
            for one, name in self.own.items()
            if name in (names.get(one, ""), names.get(one, "/"))
        }
        unexplained = (found | own) - explained - undone
        own |= undone
        unknown = set(found) if self.all_foreign else set[str]()
        if self.cut_off or self.lost or self.all_own:
            own |= found
            is_known = self.cut_off or (self.all_own and seen)
            return own, foreign, unknown if is_known else unknown | unexplained
        return own, foreign if seen else foreign | unexplained, unknown
