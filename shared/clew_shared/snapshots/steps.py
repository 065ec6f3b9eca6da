"""The record of a goal as the steps that the rules of undo go by (`plan`)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.snapshots.entries import changes
from clew_shared.snapshots.plan import Acted, Seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from clew_shared.record.touched import Touched
    from clew_shared.snapshots.plan import Between, Step
    from clew_shared.snapshots.store import SnapshotStore


PLAN_S = 120.0
"""How long all comparisons of snapshots for one undo or diff may take."""

UNWATCHED = ("goal", "worker", "undo")
"""The moments at which a new executor takes a snapshot, which has not seen what was before."""


def comparing(store: SnapshotStore) -> Between:
    """Return what compares the snapshots of a store, each two of them once; it blocks, and raises StoreError."""
    return cache(lambda old, new: changes(store, old, new))


def steps(
    between: Between, rows: Sequence[tuple[int, ev.Event]], first: int, last: int | None = None
) -> list[Step]:
    """Return the steps that recorded events describe from snapshot `first` on, oldest first; raises as `between`.

    `last` is the number of the last event that counts, None for all.
    """
    found: list[Step] = []
    tree = undone = ""
    watched = True
    trees = {seq: event.tree for seq, event in rows if isinstance(event, snap.SnapshotTaken)}
    gone_back_to: dict[int, str] = {}
    shown = {of for _, e in rows if isinstance(e, snap.SnapshotTaken) for of in e.cut_off}
    for seq, event in rows:
        if isinstance(event, snap.UndoStarted):
            gone_back_to[seq] = trees.get(event.first, "")
        if seq < first or (last is not None and seq > last):
            continue
        if isinstance(event, ev.ActionInterrupted) and event.of in shown:
            continue  # the snapshot that was taken at once has shown what it did
        found += _acts(seq, event)
        if isinstance(event, snap.UndoFinished):
            watched = (
                False  # what someone else writes after its name was restored is not told apart
            )
            undone = gone_back_to.get(event.of, "") if event.restored != len(event.own) else undone
        if isinstance(event, snap.SnapshotTaken):
            if undone:
                found.append(Acted(seq, _written(between, tree, event.tree, undone)))
            found.append(Seen(seq, event.tree, watched=watched and event.moment not in UNWATCHED))
            tree, undone, watched = event.tree, "", True
    return found


def _written(between: Between, before: str, now: str, undone: str) -> dict[str, str]:
    """Return what an undo has written, with the object of each: what is now as in the snapshot gone back to."""
    differs = between(undone, now)
    return {
        name: "" if entry is None else entry.id or "/"
        for name, (_, entry) in between(before, now).items()
        if name not in differs
    }


def with_store(rows: Iterable[tuple[int, ev.Event]]) -> list[tuple[int, ev.Event]]:
    """Return the events of which the store has the snapshots: those since it was removed last, or all."""
    found: list[tuple[int, ev.Event]] = []
    for seq, event in rows:
        if isinstance(event, snap.SnapshotsMissing) and event.removed:
            found.clear()
        else:
            found.append((seq, event))
    return found


def _acts(seq: int, event: ev.Event) -> Iterator[Acted]:
    """Yield what was done to the workspace between two snapshots."""
    match event:
        case ev.ActionFinished():
            yield _touched(seq, event.touched)
        case snap.SnapshotTaken():
            yield _touched(seq, event.touched)
            if event.cut_off:
                yield Acted(seq, all_own=True)
        case ev.ActionInterrupted():  # it is not known who changed what until the next snapshot
            yield Acted(seq, lost=True)
        case snap.UndoFinished():
            yield Acted(seq, dict(event.own))
        case _:
            pass


def _touched(seq: int, touched: Touched) -> Acted:
    return Acted(
        seq,
        dict(touched.own),
        frozenset(touched.foreign),
        all_own=touched.own_cut,
        all_foreign=touched.foreign_cut,
    )
