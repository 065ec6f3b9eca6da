"""Reading a ledger, checked by its hash chain, from any thread, in pages so that a reader holds up no writer."""

import re
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import apsw

from clew_shared.ledger import schema
from clew_shared.ledger.chain import genesis, link, unsealed, whole
from clew_shared.ledger.errors import SEQ_MAX, LedgerEmpty, corrupt
from clew_shared.ledger.opening import check_kind, explained, open_reading, refuse_remains

_PAGE_ROWS = 256
_PAGE_BYTES = 4 << 20
_CURSOR = re.compile(r"(0|[1-9][0-9]{0,18})-((?:[0-9a-f]{64})?)")


class EventRow(NamedTuple):
    """One recorded event: `seq` counts from 1 over all goals, `n` from 1 within its goal."""

    seq: int
    goal: str
    n: int
    kind: str
    body: bytes
    hash: bytes


class ReadSide:
    """The read side of a ledger; its connections cannot write, and each serves one call at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle: deque[apsw.Connection] = deque()

    def read(self, goal: str, after: int = 0, limit: int | None = None) -> Iterator[EventRow]:
        """Yield a goal's events with a seq above `after`, oldest first; LedgerCorrupt at one that does not fit."""
        left = SEQ_MAX if limit is None else limit
        tip = next(iter(self._rows(schema.TIP_BEFORE, goal, after)), (0, genesis(goal)))
        while left > 0:
            size = min(left, _PAGE_ROWS)
            head = self._first(schema.HEAD, goal)  # first: up to here events must be there
            page = self._rows(schema.EVENTS_OF_GOAL, goal, after, size)
            for *columns, digest in page:
                row = EventRow(*columns)
                tip = self._linked(tip, row, digest)
                yield row
            after = page[-1][0] if page else after
            left -= size
            if len(page) < size:
                if head and after < head and self._rows(schema.HEAD, goal):  # not purged meanwhile
                    raise corrupt(self.path, f"damaged: event {head} of {goal} is not found")
                return

    def read_all(self, after: int = 0) -> Iterator[EventRow]:
        """Yield the events of all goals whose seq is greater than `after`, oldest first, without checking the chain."""
        while page := self.page(after, _PAGE_ROWS, _PAGE_BYTES):
            yield from page
            after = page[-1].seq

    def page(self, after: int, rows: int, size: int) -> list[EventRow]:
        """Return the next events of all goals, unchecked: at most `rows`, of `size` bytes or a little more."""
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
            if seq > self.last_seq() or self.was_purged(seq):
                return None
            raise corrupt(self.path, f"damaged: event {seq} is not found")
        data, digest = rows[0]
        if data is None and not digest:
            return None
        with self._decoding(f"the output of event {seq}"):
            found = None if data is None else whole(data, digest)
        if found is None:
            what = f"damaged: the output of event {seq} was changed or is missing"
            raise corrupt(self.path, what)
        return found

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

    def last_seq(self) -> int:
        """Return the highest durable seq, 0 for an empty ledger."""
        return int(self._first(schema.LAST_SEQ))

    def tip(self) -> tuple[int, bytes] | None:
        """Return seq and hash of the last durable event, also if it was purged; None if there is none."""
        return next(iter(self._rows(schema.TIP)), None)

    def hash_at(self, seq: int) -> bytes | None:
        """Return the hash of an event, None if there is none of that number."""
        found: bytes | None = self._first(schema.EVENT_HASH, seq)
        return found

    def was_purged(self, seq: int) -> bool:
        """Return whether the event of that number belonged to a purged goal."""
        return bool(self._rows(schema.WAS_PURGED, seq))

    def last_purged(self) -> int:
        """Return the highest seq of all purged events, 0 if there are none."""
        return self._first(schema.LAST_PURGED) or 0

    def holds(self, seq: int, tip: bytes) -> bool:
        """Return whether the event of that number has, or had, this hash, as far as that is known of a purged one."""
        known = self._column(schema.HASHES, seq)
        return tip in known if known else seq == 0 or self.was_purged(seq)

    def goals(self) -> list[str]:
        """Return the goals that have events, sorted, without the daemon's own ("")."""
        return self._column(schema.GOALS)

    def goals_with_loops(self) -> list[str]:
        """Return the goals in which a loop was detected."""
        return self._column(schema.GOALS_WITH_LOOPS)

    def names(self) -> dict[str, str]:
        """Return the name of each goal by its id, "" for none, in the order of acceptance."""
        return {goal: str(name or "") for goal, name in self._rows(schema.NAMES)}

    def heads(self) -> dict[str, tuple[int, bytes]]:
        """Return the seq and the hash of each goal's last event; the daemon's are those of ""."""
        return {goal: (seq, tip) for goal, seq, _, tip in self._rows(schema.HEADS)}

    def purged(self) -> list[str]:
        """Return the purged goals, sorted."""
        return sorted(self._column(schema.PURGED))

    def own(self, kind: str, limit: int = SEQ_MAX) -> list[bytes]:
        """Return the bodies of the daemon's own last events of a kind, newest first."""
        return self._column(schema.OWN_EVENTS, kind, limit)

    def latest_snapshot(self, goal: str, version: int) -> tuple[int, bytes] | None:
        """Return seq and state of the goal's snapshot, None without one of this version; raises LedgerCorrupt."""
        for seq, blob in self._rows(schema.SNAPSHOT, goal, version):
            return seq, self._unsealed(goal, seq, version, blob)
        return None

    def last_snapshots(self, version: int) -> dict[str, bytes]:
        """Return the states of goals with a snapshot of this version as of their last event; raises LedgerCorrupt."""
        rows = self._rows(schema.LAST_SNAPSHOTS, version)
        return {goal: self._unsealed(goal, seq, version, blob) for goal, seq, blob in rows}

    def _unsealed(self, goal: str, seq: int, version: int, blob: bytes) -> bytes:
        with self._decoding(f"the snapshot of {goal}"):
            state = unsealed(goal, seq, version, blob)
        if state is None:
            raise corrupt(self.path, f"damaged: the snapshot of {goal} (event {seq}) was changed")
        return state

    @contextmanager
    def connection(self) -> Iterator[apsw.Connection]:
        """Borrow a read-only connection; its errors are raised as the ledger's own."""
        with explained(self.path):
            try:
                con = self._idle.pop()
            except IndexError:
                con = self._opened()
            try:
                yield con
            except BaseException:
                con.close()
                raise
            self._idle.append(con)

    def _opened(self) -> apsw.Connection:
        return open_reading(self.path)

    def _rows(self, sql: str, *bindings: Any) -> list[tuple[Any, ...]]:
        with self.connection() as con:
            return con.execute(sql, bindings).fetchall()

    def _column(self, sql: str, *bindings: Any) -> list[Any]:
        return [row[0] for row in self._rows(sql, *bindings)]

    def _first(self, sql: str, *bindings: Any) -> Any:
        return next(iter(self._column(sql, *bindings)), None)

    @contextmanager
    def _decoding(self, what: str) -> Iterator[None]:
        """Treat a value of a type that was never written as damage."""
        try:
            yield
        except (TypeError, AttributeError, ValueError, struct.error) as error:
            raise corrupt(self.path, f"damaged: {what} cannot be read: {error}") from error

    def _close_readers(self) -> None:
        while self._idle:
            self._idle.pop().close()


class Reader(ReadSide):
    """A ledger opened for reading only, with or without a daemon that writes it."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open an existing ledger; raises LedgerError, LedgerEmpty or LedgerCorrupt."""
        with explained(path):
            refuse_remains(path)
        reader = cls(path)
        with reader.connection() as con:
            version = check_kind(con, path)
        if version == 0:
            reader.close()
            raise LedgerEmpty(path, "is still empty", "start the daemon once (`clew run`)")
        return reader

    def close(self) -> None:
        self._close_readers()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in one ledger: the last event that was seen, and its hash, which tells it from other ledgers."""

    seq: int = 0
    hash: bytes = b""

    def __str__(self) -> str:
        return f"{self.seq}-{self.hash.hex()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the cursor that `str` turned into this text; raises ValueError."""
        found = _CURSOR.fullmatch(text)
        if found is None or int(found[1]) > SEQ_MAX:
            raise ValueError(f"{text[:100]!r} is not a cursor")
        return cls(int(found[1]), bytes.fromhex(found[2]))

    @classmethod
    def at_end(cls, ledger: ReadSide) -> Self:
        """Return the cursor after the last event of a ledger."""
        found = ledger.tip()
        return cls(*found) if found else cls()

    def is_of(self, ledger: ReadSide) -> bool:
        """Return whether it is a place in this ledger after which no event was purged."""
        return ledger.holds(self.seq, self.hash) and ledger.last_purged() <= self.seq
