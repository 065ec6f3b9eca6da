"""The files that a goal itself changed, with their counts of lines, read from its record and its store."""

from clew_daemon.record.comparison import ChangedFile, comparison
from clew_shared.ledger.reader import ReadSide
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.snapshots.entries import changes
from clew_shared.snapshots.plan import listed, own_changes, with_store
from clew_shared.snapshots.store import SnapshotStore
from clew_shared.views.publish import plain_paths


def changed_files(ledger: ReadSide, goal: str, store: SnapshotStore) -> list[ChangedFile]:
    """Return what the goal itself changed since its first snapshot; raises StoreError, OSError, LedgerError. Blocks."""
    rows = with_store((row.seq, decode(row.body)) for row in ledger.read(goal))
    first = next((seq for seq, event in rows if isinstance(event, ev.SnapshotTaken)), 0)
    own = own_changes(rows, listed(store), first) if first else {}
    if not own:
        return []
    tree = next(e.tree for _, e in rows if isinstance(e, ev.SnapshotTaken))
    with comparison(store, tree, own) as compared:
        return compared.files()


def changed_by(ledger: ReadSide, goal: str, store: SnapshotStore, action: int) -> list[str] | None:
    """Return what has changed since an action began that was cut off, by the snapshots around it; None without them.

    What other actions have changed between them, or someone else while none ran, is left out. Raises as
    `changed_files`. Blocks.
    """
    before, after, over, others = "", "", False, set[str]()
    for seq, event in with_store((row.seq, decode(row.body)) for row in ledger.read(goal)):
        match event:
            case ev.SnapshotTaken() if over or action in event.cut_off:
                after = after or event.tree
            case ev.SnapshotTaken() if not after:
                # before the action began, even if after its verdict
                before, others = event.tree, set()
            case ev.ActionInterrupted() if event.of == action:
                over = True
            case ev.ActionFinished() if seq < action:
                others |= {name for name, _ in event.touched.own}
        if isinstance(event, ev.SnapshotTaken | ev.ActionFinished):
            others |= set(event.touched.foreign)
    if not (before and after):
        return None
    return plain_paths(sorted(changes(store, before, after).keys() - others))
