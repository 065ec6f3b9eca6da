"""The herald's reading of the ledger: batches of events after a cursor, in short transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from clew_shared.ledger import Cursor, EventRow, LedgerEmpty, Reader
from clew_shared.record.codec import decode
from clew_shared.record.events import GoalEvent

BATCH_ROWS = 500


class UnknownEventError(ValueError):
    """An event of a later clew; it is not passed over, and waits for the herald of that version."""


@contextmanager
def opened(path: Path) -> Iterator[Reader | None]:
    """Open the ledger for reading; None where there is none yet. Raises LedgerError."""
    if not path.exists():
        yield None
        return
    try:
        reader = Reader.open(path)
    except LedgerEmpty:  # a first start is making it
        yield None
        return
    with reader:
        yield reader


def batch(reader: Reader, after: Cursor) -> tuple[list[EventRow], Cursor]:
    """Return the next events, and the cursor behind them; events that were purged are passed over."""
    rows = list(islice(reader.read_all(after.seq), BATCH_ROWS))
    if rows:
        return rows, Cursor(rows[-1].seq, rows[-1].hash)
    end = Cursor.at_end(reader)
    return [], end if end.seq > after.seq else after


def continues(reader: Reader, cursor: Cursor) -> bool:
    """Return whether a cursor is a place in this ledger, even if its event was purged since."""
    return (
        cursor.seq == 0
        or reader.has_recorded(cursor.seq, cursor.hash)
        or (reader.hash_at(cursor.seq) is None and reader.was_purged(cursor.seq))
    )


def event_of(row: EventRow) -> GoalEvent:
    """Return a goal's event; raises UnknownEventError."""
    try:
        return decode(row.body)
    except ValueError:
        raise UnknownEventError(
            f"event {row.seq} was recorded by another version of clew: start clew herald again"
        ) from None
