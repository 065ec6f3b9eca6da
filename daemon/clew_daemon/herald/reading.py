"""The herald's reading of the ledger: batches of events after a cursor, in short transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import apsw

from clew_shared.ledger import Cursor, EventRow, LedgerEmpty, LedgerError, Reader
from clew_shared.record.codec import decode
from clew_shared.record.events import GoalEvent

BATCH_ROWS = 500
LATER = "another version of clew has recorded this: start clew herald again"


class UnknownEventError(ValueError):
    """An event of a later clew; it is not passed over, and waits for the herald of that version."""


@contextmanager
def opened(path: Path) -> Iterator[Reader | None]:
    """Open the ledger for reading; None where there is none yet.

    Raises LedgerError and, where what is read in the block is of a later clew, UnknownEventError.
    """
    if not path.exists():
        yield None
        return
    try:
        reader = Reader.open(path)
    except LedgerEmpty:  # a first start is making it
        yield None
        return
    try:
        with reader:
            yield reader
    except apsw.Error as error:
        raise LedgerError(path, f"cannot be read: {error}", "see `clew verify`") from error
    except UnknownEventError:
        raise
    except ValueError:
        raise UnknownEventError(LATER) from None


def batch(reader: Reader, after: Cursor) -> tuple[list[EventRow], Cursor]:
    """Return the next events, and the cursor behind them; events that were purged are passed over."""
    end = Cursor.at_end(reader)  # first: what is recorded meanwhile is for the next batch
    rows = list(islice(reader.read_all(after.seq), BATCH_ROWS))
    if rows:
        return rows, Cursor(rows[-1].seq, rows[-1].hash)
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
        raise UnknownEventError(f"event {row.seq}: {LATER}") from None
