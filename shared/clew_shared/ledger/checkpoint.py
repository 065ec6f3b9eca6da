"""Checkpoints: SQLite's log (WAL) is moved into the database between transactions, so that its room is used again."""

from __future__ import annotations

import errno

import apsw

WAL_PAGES_MAX = 1_000  # 4 MB: beyond it a checkpoint is due
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


class Checkpoints:
    """The checkpoints of the one connection that writes; `pages` are in its log, as far as known."""

    def __init__(self, con: apsw.Connection, pages: int = 0) -> None:
        self._con = con
        self.pages = pages
        self.pages_max = WAL_PAGES_MAX
        con.set_wal_hook(self._committed)

    @property
    def is_due(self) -> bool:
        """Return whether the log has grown too long."""
        return self.pages > self.pages_max

    def run(self) -> None:
        """Move the log into the database, as far as readers allow; raises apsw.Error."""
        pages, moved = self._con.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self.pages = 0 if pages == moved else pages
        self.pages_max = self.pages + WAL_PAGES_MAX

    def postpone(self) -> None:
        """Let the log grow before the next attempt."""
        self.pages_max = self.pages + WAL_PAGES_MAX

    def _committed(self, _con: apsw.Connection, _name: str, pages: int) -> int:
        self.pages = pages
        return apsw.SQLITE_OK


def is_full(error: apsw.Error, con: apsw.Connection) -> bool:
    """Return whether the disk or quota is full, so that a retry may help, and not failing."""
    if isinstance(error, apsw.FullError):
        return True
    retryable = (apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_SHMSIZE)
    return getattr(error, "extendedresult", 0) in retryable and con.system_errno in _NO_ROOM
