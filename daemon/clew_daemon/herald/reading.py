"""Where the herald's events come from: the ledger first, as far as it is behind, then the daemon's stream.

While no daemon runs, the ledger is read in short transactions. What each batch leads to is stored before the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from clew_daemon.reading.client import Address
from clew_daemon.reading.follow import EventSource, StreamBatch, StreamBegin, StreamEvent
from clew_shared.ledger import Cursor, EventRow, LedgerEmpty, Reader

BATCH_ROWS = 500


def catch_up(path: Path, cursor: Cursor | None) -> Iterator[tuple[list[StreamEvent], Cursor]]:
    """Yield the events after a cursor of this ledger in batches, each with the cursor behind it; raises LedgerError.

    Events that were purged meanwhile are passed over. Without a cursor, all events.
    """
    with _opened(path) as reader:
        if reader is None:
            return
        end = Cursor.at_end(reader)
        after = cursor or Cursor()
        rows = reader.read_all(after.seq)
        while batch := list(islice(rows, BATCH_ROWS)):
            after = Cursor(batch[-1].seq, batch[-1].hash)
            yield _events(batch), after
        if end.seq > after.seq:  # the last events were purged
            yield [], end


def all_events(path: Path) -> tuple[Iterable[StreamEvent], Cursor]:
    """Return all events up to now, and the cursor behind them; raises LedgerError."""
    with _opened(path) as reader:
        end = Cursor.at_end(reader) if reader else Cursor()
    found = (event for events, _ in catch_up(path, None) for event in events)
    return (event for event in found if event.seq <= end.seq), end


def is_of(path: Path, cursor: Cursor) -> bool:
    """Return whether a cursor is a place in this ledger, even if its event was purged since; raises LedgerError."""
    with _opened(path) as reader:
        if reader is None:
            return cursor.seq == 0
        return (
            cursor.seq == 0
            or reader.has_recorded(cursor.seq, cursor.hash)
            or (reader.hash_at(cursor.seq) is None and reader.was_purged(cursor.seq))
        )


class EventStream:
    """The events from a cursor on, wherever they come from; None from `poll` says to catch up from the ledger."""

    def __init__(self, find: Callable[[], Address], ledger: Path, after: Cursor) -> None:
        self._source = EventSource(find, ledger, str(after))

    @property
    def is_streaming(self) -> bool:
        """Whether a daemon sends the events."""
        return self._source.is_streaming

    def poll(self, wait_s: float) -> list[tuple[list[StreamEvent], Cursor]] | None:
        """Return the next batches, after at most `wait_s` if there are none; raises LedgerError."""
        found = []
        for news in self._source.poll(wait_s):
            if isinstance(news, StreamBegin) and news.reset:
                return None
            if isinstance(news, StreamBatch):
                found.append((list(news.events), Cursor.parse(news.after)))
        return found

    def close(self) -> None:
        """End the connection."""
        self._source.close()


@contextmanager
def _opened(path: Path) -> Iterator[Reader | None]:
    """Open the ledger for reading; None where there is none yet."""
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


def _events(rows: list[EventRow]) -> list[StreamEvent]:
    return [StreamEvent(row.seq, row.goal, row.kind, row.body) for row in rows]
