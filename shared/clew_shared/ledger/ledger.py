"""The ledger of a daemon: assigns seq, n and hash, queues what is to be written, and wakes those who wait for it.

It knows no meaning of an event, and decides nothing about one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Empty
from typing import Self

import apsw

from clew_shared.ledger import schema
from clew_shared.ledger.chain import Tips, sealed
from clew_shared.ledger.errors import LedgerFailed, LedgerLostError, LedgerState, NewEvent
from clew_shared.ledger.lock import WRITER, Lock, acquire, beside
from clew_shared.ledger.opening import Statement, explained, open_writing
from clew_shared.ledger.reader import ReadSide
from clew_shared.ledger.writer import Job, Told, Writer

ROOM_MIN = 64 << 10  # a disk with fewer bytes is as good as full
GIVE_UP_S = 0.5  # for a thread that must not retry any more
PENDING_MAX = 100_000
PENDING_BYTES_MAX = 256 << 20
PUT_BACK = "put its files back, or restore a backup (`clew restore FILE`); nothing more is recorded"


class Ledger(ReadSide):
    """The one ledger of a daemon; `append` and all `async` methods belong to one event loop.

    ReadSide sees what is durable, and may be done from any thread. `state` is that of writing, as last passed to
    `on_state`; `failure` is why nothing more can be written, None while it can; `times` how long commits took.
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
        self.state = LedgerState.OK
        self.failure: LedgerFailed | None = None
        self._tips = Tips(con)
        told = Told(self._deliver, self._fail, self._show, self._end)
        self._writer = Writer(path, con, told)
        self.begin, self.times = self._writer.begin, self._writer.times
        self._on_state = on_state
        self._lock, self._owns_lock = lock, owns_lock
        self._pending = self._pending_bytes = 0
        self._ended: asyncio.Future[None] | None = None

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

    def append(self, entries: Sequence[NewEvent]) -> tuple[list[int], asyncio.Future[None]]:
        """Append entries; returns their seqs and a future that is done when all are durable.

        One call is one transaction, completely recorded or not at all. Raises LedgerFailed, before anything is
        assigned, once writing has failed or when far too much waits already.
        """
        size = sum(len(e.body) + len(e.output or b"") for e in entries)
        self._admit(len(entries), size)
        rows = self._tips.rows_of(entries)
        statements = [(schema.APPEND, rows)] if rows else []
        return [row[0] for row in rows], self._put(statements, len(rows), size)

    async def snapshot(self, goal: str, seq: int, version: int, state: bytes) -> None:
        """Store the goal's folded state as of `seq`, in place of an earlier one."""
        blob = sealed(goal, seq, version, state)
        await self._write([(schema.KEEP_SNAPSHOT, [(goal, seq, version, blob)])], len(blob))

    async def purge(self, goal: str) -> None:
        """Remove an ended goal's events, outputs and snapshot; what `verify` needs of them stays."""
        await self._write([(sql, [(goal,)]) for sql in schema.PURGE])

    async def _write(self, statements: Sequence[Statement], size: int = 0) -> None:
        self._admit(1, size)
        await self._put(statements, 1, size)

    async def sync(self, timeout_s: float) -> bool:
        """Return whether all that was queued so far became durable within `timeout_s`."""
        self._admit(0, 0)
        done = self._put([], 0, 0)
        await asyncio.wait([done], timeout=timeout_s)
        return done.done() and done.exception() is None

    def _admit(self, count: int, size: int) -> None:
        """Check that `count` more records of `size` bytes may wait; raises LedgerFailed."""
        if self.failure is not None:
            raise self.failure
        if self._pending + count > PENDING_MAX or self._pending_bytes + size > PENDING_BYTES_MAX:
            waiting = f"{self._pending} records ({self._pending_bytes} bytes)"
            what = f"{waiting} are waiting to be written"
            raise LedgerFailed(self.path, what, "free disk space, or find out why it is slow")
        self.begin()

    def _put(self, statements: Sequence[Statement], count: int, size: int) -> asyncio.Future[None]:
        job = Job(statements, self.begin().create_future(), count, size)
        self._pending += count
        self._pending_bytes += size
        self._writer.jobs.put(job)
        return job.done

    async def close(self, timeout_s: float) -> None:
        """Write what waits, then close; what is not durable after `timeout_s` fails."""
        self._close_readers()
        loop, is_open = self._writer.loop, self.failure is None
        self.failure = self.failure or LedgerFailed(self.path, "closed", "open it again")
        if loop is None:
            if is_open:
                self._writer.close(clean=True)
        else:
            if self._ended is None:
                self._ended = loop.create_future()
                self._writer.jobs.put(None)
            if self._writer.runs:
                await asyncio.wait([self._ended], timeout=timeout_s)
                self._writer.give_up.set()
                await asyncio.wait([self._ended], timeout=GIVE_UP_S)
            self._fail_waiting(self.failure)
        if self._writer.runs and not (self._ended and self._ended.done()):
            self._lock.keep()  # it waits for the disk, and may still write afterwards
        elif self._owns_lock:
            self._lock.release()

    # -- what the writer tells -----------------------------------------------------------------------

    def _deliver(self, jobs: list[Job], error: LedgerFailed | None = None) -> None:
        """Wake those who wait for jobs that are durable, or failed."""
        if isinstance(self.failure, LedgerLostError):
            error = self.failure  # what was written into files that are gone is not recorded
        for job in jobs:
            self._pending -= job.count
            self._pending_bytes -= job.size
            if job.done.done():
                continue
            if error is None:
                job.done.set_result(None)
            else:
                job.done.set_exception(error)
                job.done.exception()  # retrieved: awaiting it is optional, `on_state` reports it too

    def _fail(self, error: LedgerFailed, jobs: list[Job]) -> None:
        is_first = not isinstance(self.failure, LedgerLostError)
        if is_first:
            self.failure = error
        self._deliver(jobs, error)
        self._fail_waiting(error)
        if is_first:
            self._show(LedgerState.FAILED)

    def _fail_waiting(self, error: LedgerFailed) -> None:
        with suppress(Empty):
            while True:
                if job := self._writer.jobs.get_nowait():
                    self._deliver([job], error)

    def _show(self, state: LedgerState) -> None:
        self.state = state
        if self._on_state is not None:
            self._on_state(state)

    def _end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _opened(self) -> apsw.Connection:
        """Open another connection by its path: to the same file, or to none."""
        con = super()._opened()
        if what := self._writer.files.moved():
            con.close()
            raise LedgerLostError(self.path, what, PUT_BACK)
        return con

    # -- how it is ---------------------------------------------------------------------------------

    @property
    def assigned(self) -> int:
        """The last number that was assigned; it may not be durable yet."""
        return self._tips.seq

    @property
    def has_room(self) -> bool:
        """Return whether its disk has room for more than what may still fit into SQLite's log."""
        found = os.statvfs(self.path.parent)
        return self.state is not LedgerState.FULL and found.f_bavail * found.f_frsize >= ROOM_MIN

    def look(self) -> None:
        """Compare the ledger's files with those that are open.

        Raises LedgerFailed if nothing more can be written; if they differ, that holds from now on.
        """
        if self.failure is None and (what := self._writer.files.fault()):
            self._writer.give_up.set()
            self._fail(LedgerLostError(self.path, f"{what} while it was in use", PUT_BACK), [])
            self._writer.jobs.put(None)
        if self.failure is not None:
            raise self.failure
