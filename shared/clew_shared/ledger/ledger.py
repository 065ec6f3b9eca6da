"""The ledger of a daemon: assigns seq, n and hash, and passes the rest to the writer thread.

It knows no meaning of an event, and decides nothing about one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import apsw

from clew_shared.ledger import schema
from clew_shared.ledger.chain import Tips, sealed
from clew_shared.ledger.errors import (
    CommitTimes,
    LedgerFailed,
    LedgerLostError,
    LedgerState,
    NewEvent,
)
from clew_shared.ledger.lock import WRITER, Lock, acquire, beside
from clew_shared.ledger.open_files import OpenFiles
from clew_shared.ledger.opening import explained, open_writing
from clew_shared.ledger.reader import ReadSide
from clew_shared.ledger.writer import PUT_BACK, Statement, Writer

ROOM_MIN = 64 << 10  # a disk with fewer bytes is as good as full


class Ledger(ReadSide):
    """The one ledger of a daemon; `append` and all `async` methods belong to one event loop.

    ReadSide sees what is durable, and may be done from any thread. `files` watches the files that it is in.
    """

    def __init__(
        self,
        path: Path,
        con: apsw.Connection,
        on_state: Callable[[LedgerState], None] | None,
        lock: Lock,
        *,
        owns_lock: bool,
    ) -> None:
        super().__init__(path)
        self._tips = Tips(con)
        self.files = OpenFiles(path)
        self._writer = Writer(path, con, on_state, self.files)
        self._lock = lock
        self._owns_lock = owns_lock

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        on_state: Callable[[LedgerState], None] | None = None,
        vfs: str | None = None,
        lock: Lock | None = None,
    ) -> Self:
        """Open or make the ledger at `path`; `on_state` is called on the loop's thread.

        `lock` is the ledger's own, held by the caller; without it, the ledger holds its lock until it is closed.
        `vfs` names an SQLite file system that was registered with apsw, for tests of failing disks.

        Raises LockError, or LedgerTooNew, LedgerCorrupt, LedgerError (not durable there, not readable).
        """
        with ExitStack() as undo, explained(path):
            held = lock or undo.enter_context(acquire(beside(path), role=WRITER))
            if not held.held or held.path != beside(path):
                raise ValueError(f"{held.path} is not the held lock of {path}")
            con = open_writing(path, vfs=vfs)
            undo.callback(con.close)
            opened = cls(path, con, on_state, held, owns_lock=lock is None)
            undo.pop_all()
            return opened

    # -- what is written ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the thread that writes, before anything is numbered; raises RuntimeError if that fails."""
        self._writer.begin()

    def append(self, entries: Sequence[NewEvent]) -> tuple[list[int], asyncio.Future[None]]:
        """Append entries; returns their seqs and a future that is done when all are durable.

        One call is one transaction, completely recorded or not at all. Raises LedgerFailed, before anything is
        assigned, once writing has failed or when far too much waits already.
        """
        size = sum(len(e.body) + len(e.output or b"") for e in entries)
        self._writer.admit(len(entries), size)
        rows = self._tips.rows_of(entries)
        statements = [(schema.APPEND, rows)] if rows else []
        return [row[0] for row in rows], self._writer.put(statements, len(rows), size)

    async def snapshot(self, goal: str, seq: int, version: int, state: bytes) -> None:
        """Store the goal's folded state as of `seq`, in place of an earlier one."""
        blob = sealed(goal, seq, version, state)
        await self._write([(schema.KEEP_SNAPSHOT, [(goal, seq, version, blob)])], len(blob))

    async def purge(self, goal: str) -> None:
        """Remove an ended goal's events, outputs and snapshot; what `verify` needs of them stays."""
        await self._write([(sql, [(goal,)]) for sql in schema.PURGE])

    async def _write(self, statements: Sequence[Statement], size: int = 0) -> None:
        """Wait until statements are durable, in one transaction; `size` is in bytes."""
        self._writer.admit(1, size)
        await self._writer.put(statements, 1, size)

    async def sync(self, timeout_s: float) -> bool:
        """Return whether all that was queued so far became durable within `timeout_s`."""
        self._writer.admit(0, 0)
        done = self._writer.put([], 0)
        await asyncio.wait([done], timeout=timeout_s)
        return done.done() and done.exception() is None

    async def close(self, timeout_s: float) -> None:
        """Write what waits, then close; what is not durable after `timeout_s` fails."""
        self._close_readers()
        await self._writer.stop(timeout_s)
        if not self._writer.stopped:
            self._lock.keep()  # it waits for the disk, and may still write afterwards
        elif self._owns_lock:
            self._lock.release()

    # -- how it is ---------------------------------------------------------------------------------

    @property
    def assigned(self) -> int:
        """The last number that was assigned; it may not be durable yet."""
        return self._tips.seq

    @property
    def failure(self) -> LedgerFailed | None:
        """Why nothing more can be written, None while it can."""
        return self._writer.error

    @property
    def state(self) -> LedgerState:
        """The state of writing, as last passed to `on_state`."""
        return self._writer.state

    @property
    def has_room(self) -> bool:
        """Return whether its disk has room for more than what may still fit into SQLite's log."""
        found = os.statvfs(self.path.parent)
        return self.state is not LedgerState.FULL and found.f_bavail * found.f_frsize >= ROOM_MIN

    @property
    def commit_times(self) -> CommitTimes:
        """How long commits took since the start."""
        return self._writer.times

    def look(self) -> None:
        """Compare the ledger's files with those that are open.

        Raises LedgerFailed if nothing more can be written; if they differ, that holds from now on.
        """
        if self._writer.error is not None:
            raise self._writer.error
        if what := self.files.fault():
            raise self._writer.lose(what)

    def _opened(self) -> apsw.Connection:
        """Open another connection by its path: to the same file, or to none."""
        con = super()._opened()
        if what := self.files.moved():
            con.close()
            raise LedgerLostError(self.path, what, PUT_BACK)
        return con
