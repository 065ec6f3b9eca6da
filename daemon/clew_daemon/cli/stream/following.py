"""Following a ledger while no daemon runs: what becomes durable after a cursor, in order.

The process that writes it is not asked. There is no queue, so none can overflow, and no transaction is open between two
looks.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from clew_shared.ledger import Cursor, LedgerEmpty, Reader

if TYPE_CHECKING:
    from pathlib import Path

    from clew_shared.ledger import EventRow

LOOK_ROWS = 500
"""Events in one look, at most; the next look goes on there."""


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
