"""Reading events and their outputs, each checked against the hash chain of its goal.

Long reads are done in pages without a transaction between them, so that a slow reader never keeps the writer from
reusing its log. An append-only record looks the same page by page.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from clew_shared.ledger import schema
from clew_shared.ledger.chain import genesis, link
from clew_shared.ledger.errors import corrupt
from clew_shared.ledger.packing import whole
from clew_shared.ledger.read_pool import ReadPool
from clew_shared.ledger.records import EventRow

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE_ROWS = 256


class EventReads(ReadPool):
    """The events of a ledger and their outputs."""

    def read(self, goal: str, after: int = 0, limit: int | None = None) -> Iterator[EventRow]:
        """Yield a goal's events whose seq is greater than `after`, oldest first.

        Each is checked against the chain first; raises LedgerCorrupt at the first that does not fit.
        """
        left, tip = limit, self._tip_before(goal, after)
        while left is None or left > 0:
            size = _PAGE_ROWS if left is None else min(left, _PAGE_ROWS)
            head = self._head(goal)  # before the events: up to here they must be there
            page = self._rows(schema.EVENTS_OF_GOAL, goal, after, size)
            for *columns, digest in page:
                row = EventRow(*columns)
                tip = self._linked(tip, row, digest)
                yield row
            after = page[-1][0] if page else after
            if len(page) < size:
                if after < head and self._head(goal):  # it was not purged meanwhile
                    raise corrupt(self.path, f"damaged: event {head} of {goal} is not found")
                return
            left = None if left is None else left - size

    def _head(self, goal: str) -> int:
        rows = self._rows(schema.HEAD, goal)
        return rows[0][0] if rows else 0

    def _tip_before(self, goal: str, seq: int) -> tuple[int, bytes]:
        rows = self._rows(schema.TIP_BEFORE, goal, seq)
        return (rows[0][0], rows[0][1]) if rows else (0, genesis(goal))

    def _linked(self, tip: tuple[int, bytes], row: EventRow, digest: bytes) -> tuple[int, bytes]:
        """Check an event against the one before it, and return the new tip."""
        n, before = tip
        with self._decoding(f"event {row.seq}"):
            hashed = link(before, row.seq, row.n, row.goal, row.kind, row.body, digest)
            follows = row.n == n + 1 and hashed == row.hash
        if not follows:
            what = f"event {row.seq} of {row.goal or 'the daemon'} does not fit the one before it"
            raise corrupt(self.path, f"damaged: {what}, or was changed")
        return row.n, row.hash

    def read_all(self, after: int = 0) -> Iterator[EventRow]:
        """Yield the events of all goals whose seq is greater than `after`, oldest first, without checking the chain."""
        while page := self._rows(schema.EVENTS, after, _PAGE_ROWS):
            yield from (EventRow(*row) for row in page)
            after = page[-1][0]

    def page(self, after: int, rows: int, size: int) -> list[EventRow]:
        """Return the first events of all goals whose seq is greater than `after`, oldest first, unchecked.

        These are at most `rows` events, with bodies of `size` bytes in all or a little more.
        """
        found: list[EventRow] = []
        with self.connection() as con, closing(con.cursor()) as cursor:
            for columns in cursor.execute(schema.EVENTS, (after, rows)):
                found.append(EventRow(*columns))
                size -= len(found[-1].body)
                if size <= 0:
                    break
        return found

    def output(self, seq: int) -> bytes | None:
        """Return the output stored with the event `seq`; raises LedgerCorrupt if it was changed."""
        rows = self._rows(schema.OUTPUT, seq)
        if not rows:
            if seq > self.last_seq() or self._rows(schema.WAS_PURGED, seq):
                return None
            raise corrupt(self.path, f"damaged: event {seq} is not found")
        data, digest = rows[0]
        if data is None and not digest:
            return None
        with self._decoding(f"the output of event {seq}"):
            found = None if data is None else whole(data, digest)
        if found is None:
            raise corrupt(
                self.path, f"damaged: the output of event {seq} was changed or is missing"
            )
        return found

    def hash_at(self, seq: int) -> bytes | None:
        """Return the hash of an event, None if there is none of that number."""
        rows = self._rows(schema.EVENT_HASH, seq)
        return rows[0][0] if rows else None

    def last_event(self) -> tuple[int, bytes] | None:
        """Return seq and hash of the last durable event that was not purged, None if there is none."""
        rows = self._rows(schema.LAST_EVENT)
        return (rows[0][0], rows[0][1]) if rows else None

    def tip(self) -> tuple[int, bytes] | None:
        """Return seq and hash of the last durable event, also if it was purged; None if there is none."""
        rows = self._rows(schema.TIP)
        return (rows[0][0], rows[0][1]) if rows else None

    def last_seq(self) -> int:
        """Return the highest durable seq, 0 for an empty ledger."""
        last: int = self._rows(schema.LAST_SEQ)[0][0]
        return last

    def was_purged(self, seq: int) -> bool:
        """Return whether the event of that number belonged to a purged goal."""
        return bool(self._rows(schema.WAS_PURGED, seq))

    def last_purged(self) -> int:
        """Return the highest seq of all purged events, 0 if there are none."""
        rows = self._rows(schema.LAST_PURGED)
        return rows[0][0] if rows else 0

    def has_recorded(self, seq: int, tip: bytes) -> bool:
        """Return whether the event of that number has this hash, or had it as the last event of a purged goal."""
        return self.hash_at(seq) == tip or bool(self._rows(schema.PURGED_TIP, seq, tip))
