"""The ledger of a daemon: assigns seq, n and hash, and passes the rest to the writer thread.

It knows no meaning of an event, and decides nothing about one.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from clew_shared.ledger import schema
from clew_shared.ledger.errors import LedgerLostError
from clew_shared.ledger.lock import WRITER, Lock, acquire, beside
from clew_shared.ledger.opening import explained, open_writing
from clew_shared.ledger.tips import Tips
from clew_shared.ledger.upkeep import Upkeep
from clew_shared.ledger.writer import RESCUING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import apsw

    from clew_shared.ledger.commit_times import CommitTimes
    from clew_shared.ledger.errors import LedgerFailed
    from clew_shared.ledger.records import LedgerState, NewEvent
    from clew_shared.ledger.rescue import Rescued


class Ledger(Upkeep):
    """The one ledger of a daemon; `append` and all `async` methods belong to one event loop.

    ReadSide sees what is durable, and may be done from any thread.
    """

    def __init__(
        self,
        path: Path,
        con: apsw.Connection,
        on_state: Callable[[LedgerState], None] | None,
        lock: Lock,
        *,
        owns_lock: bool,
        refuges: Sequence[Path] = (),
    ) -> None:
        tips = Tips(con)
        super().__init__(path, con, on_state, refuges)
        self._lock = lock
        self._owns_lock = owns_lock
        self._tips = tips

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        on_state: Callable[[LedgerState], None] | None = None,
        vfs: str | None = None,
        lock: Lock | None = None,
        refuges: Sequence[Path] = (),
    ) -> Self:
        """Open or make the ledger at `path`; `on_state` is called on the loop's thread.

        `refuges` are folders for a copy of a lost ledger, where its own folder takes none.
        `lock` is the ledger's own, held by the caller; without it, the ledger holds its lock until it is closed.
        `vfs` names an SQLite file system that was registered with apsw, for tests of failing disks.

        Raises LockError, or LedgerTooNew, LedgerCorrupt, LedgerError (not durable there, not readable).
        """
        with ExitStack() as undo:
            held = lock or undo.enter_context(_locked(path))
            if not held.held or held.path != beside(path):
                raise ValueError(f"{held.path} is not the held lock of {path}")
            con = open_writing(path, vfs=vfs)
            undo.callback(con.close)
            with explained(path):
                opened = cls(path, con, on_state, held, owns_lock=lock is None, refuges=refuges)
            undo.pop_all()
            return opened

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

    async def sync(self, timeout_s: float) -> bool:
        """Return whether all that was queued so far became durable within `timeout_s`."""
        self._writer.admit(0)
        done = self._writer.put([], 0)
        await asyncio.wait([done], timeout=timeout_s)
        return done.done() and done.exception() is None

    async def close(self, timeout_s: float, *, keeps_log: bool = False) -> None:
        """Write what waits, then close; what is not durable after `timeout_s` fails.

        With `keeps_log`, SQLite's log is not moved into the file, and stays beside it.
        """
        self._close_readers()
        await self._writer.stop(timeout_s, keeps_log=keeps_log)
        if not self._writer.stopped:
            self._lock.keep()  # it waits for the disk, and may still write afterwards
        elif self._owns_lock:
            self._lock.release()

    @property
    def assigned(self) -> int:
        """The last number that was assigned; it may not be durable yet."""
        return self._tips.seq

    @property
    def pending(self) -> int:
        """How many records wait to become durable."""
        return self._writer.pending

    @property
    def failure(self) -> LedgerFailed | None:
        """Why nothing more can be written, None while it can."""
        return self._writer.error

    @property
    def state(self) -> LedgerState:
        """The state of writing, as last passed to `on_state`."""
        return self._writer.state

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

    async def rescued(self, timeout_s: float) -> Rescued | None:
        """Return where the record of a lost ledger was saved, None if that is not known within `timeout_s`."""
        saving = self._writer.rescued
        if saving is None:
            return None
        await asyncio.wait([saving], timeout=timeout_s)
        return saving.result() if saving.done() else None

    def abandon(self) -> None:
        """Stop waiting for room for a copy of a lost ledger."""
        self._writer.abandon()

    def _opened(self) -> apsw.Connection:
        """Open another connection by its path: to the same file, or to none."""
        con = super()._opened()
        if what := self.files.moved():
            con.close()
            raise LedgerLostError(self.path, what, RESCUING)
        return con


def _locked(path: Path) -> Lock:
    with explained(path):
        return acquire(beside(path), role=WRITER)
