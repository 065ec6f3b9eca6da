"""The files that a goal itself changed, with their counts of lines, read from its record and its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode
from clew_shared.snapshots.comparison import FileCount, comparison
from clew_shared.snapshots.entries import LEFT_OUT
from clew_shared.snapshots.plan import own_changes
from clew_shared.snapshots.steps import steps, with_store

if TYPE_CHECKING:
    from clew_daemon.record.store import Readable
    from clew_shared.snapshots.entries import Change
    from clew_shared.snapshots.store import SnapshotStore


def changed_files(ledger: Readable, goal: str, store: SnapshotStore) -> list[FileCount]:
    """Return what the goal changed since its first snapshot, sorted by name; a renamed file counts once.

    What someone else changed meanwhile is not among it. Raises StoreError, OSError, LedgerError. Blocks.
    """
    rows = with_store((row.seq, decode(row.body)) for row in ledger.read(goal))
    first = next((seq for seq, event in rows if isinstance(event, snap.SnapshotTaken)), 0)
    own = own_changes(steps(store, rows, first), first)
    if not own:
        return []
    with comparison(store, own) as compared:
        counts = {one.path: one for one in compared.files()}
    renamed = {one.old_path for one in counts.values()}
    return [
        counts.get(path) or _uncounted(path, own[path])
        for path in sorted(own)
        if path in counts or path not in renamed
    ]


def _uncounted(path: str, change: Change) -> FileCount:
    """Return the entry of what git has no lines for: an empty folder, or a file that is in no snapshot."""
    left_out = LEFT_OUT in change
    folder = not left_out and not any(entry and entry.id for entry in change)
    return FileCount(path, "", 0, 0, binary=False, left_out=left_out, folder=folder)
