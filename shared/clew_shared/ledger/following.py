"""Following a ledger: what becomes durable after a cursor, in order, without asking the process that writes it.

There is no queue, so none can overflow: a slow follower finds the rest in the ledger. No transaction is open between
two looks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Self

from clew_shared.ledger.errors import LedgerEmpty
from clew_shared.ledger.reader import Reader
from clew_shared.ledger.records import SEQ_MAX

if TYPE_CHECKING:
    from pathlib import Path

    from clew_shared.ledger.reader import ReadSide
    from clew_shared.ledger.records import EventRow

LOOK_ROWS = 500
"""Events in one look, at most; the next look goes on there."""

_TEXT = re.compile(r"(0|[1-9][0-9]{0,18})-((?:[0-9a-f]{64})?)")


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
        found = _TEXT.fullmatch(text)
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
        if self.seq and not ledger.has_recorded(self.seq, self.hash):
            return False
        return ledger.last_purged() <= self.seq


class Follower:
    """Follows the ledger at `path`, which may be absent, replaced or restored meanwhile."""

    def __init__(self, path: Path, after: Cursor | None = None) -> None:
        self._path = path
        self._reader: Reader | None = None
        self._file = (0, 0)
        self._after = after
        self.was_reset = False
        """The last look found another ledger, or events after the cursor purged, and continues from the end."""

    @property
    def reader(self) -> Reader | None:
        """The open ledger, as of the last look; None if there is none."""
        return self._reader

    @property
    def after(self) -> Cursor:
        """Where the next look begins."""
        return self._after or Cursor()

    def look(self, limit: int = LOOK_ROWS) -> list[EventRow]:
        """Return the next events, oldest first; the first look without a cursor begins at the ledger's end.

        Raises LedgerError if the ledger cannot be read.
        """
        self.was_reset = False
        if not self._is_open():
            self._open()
        if self._reader is None:
            return []
        rows = list(islice(self._reader.read_all(self.after.seq), limit))
        if rows:
            self._after = Cursor(rows[-1].seq, rows[-1].hash)
        return rows

    def close(self) -> None:
        """Close the ledger; may be called twice."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _is_open(self) -> bool:
        return self._reader is not None and self._found() == self._file

    def _open(self) -> None:
        self.close()
        self._file = self._found()
        if self._file == (0, 0):
            return
        try:
            reader = Reader.open(self._path)
        except LedgerEmpty:  # a first start is making it
            return
        self._reader = reader
        if self._after is not None and not self._after.is_of(reader):
            self.was_reset, self._after = True, None
        if self._after is None:
            self._after = Cursor.at_end(reader)

    def _found(self) -> tuple[int, int]:
        try:
            found = self._path.stat()
        except OSError:
            return 0, 0
        return found.st_dev, found.st_ino
