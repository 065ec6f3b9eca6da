"""What snapshots and undo change in the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record.state import SnapshotState

if TYPE_CHECKING:
    from clew_shared.record import snapshot_events as snap
    from clew_shared.record.state import State

_COUNTS = {"undo": -1, "attempt": 0}
"""By how much an undo changes the number of those in force: no person has asked for that of an attempt."""


def taken(state: State, e: snap.SnapshotTaken, seq: int) -> None:
    """Take in a snapshot."""
    known = state.snapshots
    known.first = known.first or e.tree
    known.last, known.last_seq, known.missing = e.tree, seq, ""
    known.taken += 1
    known.bytes += e.bytes
    known.changed, known.left_out = e.changed, e.left_out_total


def missing(state: State, e: snap.SnapshotsMissing, _seq: int) -> None:
    """Take in why there is no snapshot, or that there is none any more: what needs one cannot be completed."""
    if e.removed:
        state.snapshots = SnapshotState()
    state.snapshots.missing = e.reason


def undo_started(state: State, e: snap.UndoStarted, seq: int) -> None:
    """Take in that entries are being restored."""
    state.snapshots.undoing, state.snapshots.counts = seq, _COUNTS.get(e.scope, 1)


def undo_finished(state: State, e: snap.UndoFinished, _seq: int) -> None:
    """Take in that all entries of an undo are restored, or left for a reason."""
    known = state.snapshots
    known.undoing = 0
    if e.restored:
        known.undone = max(0, known.undone + known.counts)
