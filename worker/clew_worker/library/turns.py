"""The same ledger without an event loop: several processes write in turns, one transaction at a time."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

import apsw

from clew_shared.ledger import opening, schema
from clew_shared.ledger.chain import Tips
from clew_shared.ledger.errors import LedgerFailed, NewEvent
from clew_shared.ledger.reader import ReadSide


class TurnLedger(ReadSide):
    """A ledger that is written in turns; not safe for use from several threads at once."""

    def __init__(self, path: Path, con: apsw.Connection) -> None:
        super().__init__(path)
        self._con, self._tips = con, Tips(con)
        self._failed: LedgerFailed | None = None
        self._checkpoints = opening.Checkpoints(con)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open or make the ledger at `path`; raises as `Ledger.open` does."""
        with ExitStack() as undo, opening.explained(path):
            con = opening.open_writing(path)
            undo.callback(con.close)
            opened = cls(path, con)
            undo.pop_all()
            return opened

    @property
    def next_seq(self) -> int:
        """The number that the next entry will get; certain only within a turn."""
        return self._tips.seq + 1

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Hold the ledger exclusively: what is appended becomes durable together at the end, or not at all.

        Yields whether others have written since the last turn. Waits up to 5 s for another writer.
        Raises LedgerError (busy, full: may be tried again) and LedgerFailed (may not).
        """
        if self._failed:
            raise self._failed
        with opening.explained(self.path):
            self._con.execute("BEGIN IMMEDIATE")
        try:
            moved = self._con.execute(schema.LAST_SEQ).get != self._tips.seq
            if moved:
                self._tips = Tips(self._con)
            yield moved
            with opening.explained(self.path):
                self._commit()
        except BaseException:
            opening.roll_back(self._con)
            with suppress(apsw.Error):  # the first error is the one to report
                self._tips = Tips(self._con)
            raise
        if self._checkpoints.is_due:
            with suppress(apsw.Error):  # all is durable in the log; the next turn tries again
                self._checkpoints.run()

    def append(self, entries: Sequence[NewEvent]) -> list[int]:
        """Append entries within a turn, and return their seqs."""
        rows = self._tips.rows_of(entries)
        with opening.explained(self.path):
            self._con.executemany(schema.APPEND, rows)
        return [row[0] for row in rows]

    def close(self) -> None:
        """Close it; closing twice is fine."""
        self._close_readers()
        with suppress(apsw.Error):  # closed already, or nothing that a caller could fix
            self._con.set_wal_hook(None)
            self._con.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            self._con.close()
        self._failed = self._failed or LedgerFailed(self.path, "closed", "open it again")

    def _commit(self) -> None:
        try:
            self._con.execute("COMMIT")
        except apsw.IOError as error:
            if opening.may_be_retried(error, self._con):
                raise
            hint = "a failed fsync is not retried: repair the disk, then start again"
            self._failed = LedgerFailed(self.path, f"cannot be written: {error}", hint)
            raise self._failed from error
