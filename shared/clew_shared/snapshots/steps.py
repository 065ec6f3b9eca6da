"""The record of a goal as the steps that the rules of undo go by (`plan`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.snapshots.entries import changes
from clew_shared.snapshots.plan import Acted, Seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clew_shared.snapshots.plan import Step
    from clew_shared.snapshots.store import SnapshotStore


def steps(store: SnapshotStore, rows: Iterable[tuple[int, ev.Event]]) -> list[Step]:
    """Return the steps that recorded events describe, oldest first; raises StoreError. Blocks."""
    found: list[Step] = []
    last = ""
    for seq, event in rows:
        found += _acts(seq, event)
        if isinstance(event, snap.SnapshotTaken):
            found.append(Seen(seq, changes(store, last, event.tree)))
            last = event.tree
    return found


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
        case ev.ActionFinished() | snap.SnapshotTaken():
            yield Acted(
                seq,
                dict(event.touched.own),
                frozenset(event.touched.foreign),
                all_own=event.touched.own_cut,
                all_foreign=event.touched.foreign_cut,
            )
        case ev.ActionInterrupted():  # it was running until the next snapshot, as far as is known
            yield Acted(seq, all_own=True)
        case snap.UndoFinished():
            yield Acted(seq, dict(event.own), all_own=event.restored != len(event.own))
        case _:
            pass
