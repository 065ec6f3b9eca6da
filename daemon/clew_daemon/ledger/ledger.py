"""The ledger of a daemon: assigns seq, n and hash, writes what is queued, and wakes those who wait for it.

It knows no meaning of an event, and decides nothing about one. Its thread owns the only connection that writes and
checkpoints: it takes everything that waits and commits it as one transaction, so that many waiters share one fsync, and
wakes them all with one call to the event loop. It waits while the disk is full; a failed fsync is never retried,
because the kernel has marked the pages clean and a second fsync would report success.
"""

import asyncio
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Self

import apsw

from clew_daemon.ledger.lock import WRITER, Lock, acquire, beside
from clew_shared.ledger import opening, schema
from clew_shared.ledger.chain import Tips, sealed
from clew_shared.ledger.errors import BOUNDS_S, LedgerFailed, LedgerLostError, LedgerState, NewEvent
from clew_shared.ledger.reader import ReadSide

ROOM_MIN = 64 << 10  # a disk with fewer bytes is as good as full
GIVE_UP_S = 0.5  # for a thread that must not retry any more
RETRY_S = 1.0  # between attempts while the disk is full
SLOW_S = 1.0  # a commit that takes longer is reported
IDLE_S = 1.0  # without work, before the log is moved into the database
BATCH_JOBS_MAX = 1_000  # in one transaction, so that no waiter waits for ever
PENDING_MAX = 100_000
PENDING_BYTES_MAX = 256 << 20
PUT_BACK = "put its files back, or restore a backup (`clew restore FILE`); nothing more is recorded"
_FAILED_HINT = "nothing more is recorded: stop, repair the disk, and start again; everything acknowledged is kept"
OnState = Callable[[LedgerState], None] | None
Statements = Sequence[opening.Statement]
Future = asyncio.Future[None]
Told = Callable[[LedgerFailed | None], None] | None


@dataclass(slots=True)
class Job:
    """Statements with their rows that become durable together, and the future that waits for it."""

    statements: Statements
    done: Future
    count: int
    size: int  # bytes
    told: Told = None


class Ledger(ReadSide):
    """The one ledger of a daemon; `append` and all `async` methods belong to one event loop.

    ReadSide sees what is durable, and may be done from any thread. `state` is that of writing, as last passed to
    `on_state`; `failure` is why nothing more can be written, None while it can. `commits` has how many commits took
    up to each of `BOUNDS_S`, and more; `commits_s` how long all took.
    """

    def __init__(
        self, path: Path, con: apsw.Connection, on_state: OnState, lock: Lock, *, owns_lock: bool
    ) -> None:
        super().__init__(path)
        self.state = self._told = LedgerState.OK  # `_told` is the thread's
        self.failure: LedgerFailed | None = None
        self.commits, self.commits_s = [0] * (len(BOUNDS_S) + 1), 0.0  # the thread's
        self._con, self._tips = con, Tips(con)
        self._files = opening.OpenFiles(path)
        # what an earlier run left is moved when idle
        self._checkpoints = opening.Checkpoints(con, pages=1)
        self._on_state = on_state
        self._lock, self._owns_lock = lock, owns_lock
        self._pending = self._pending_bytes = 0
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()  # None: it is to be closed
        self._give_up = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)

    @classmethod
    def open(
        cls, path: Path, *, on_state: OnState = None, vfs: str = "", lock: Lock | None = None
    ) -> Self:
        """Open or make the ledger at `path`; `on_state` is called on the loop's thread.

        `lock` is the ledger's own, held by the caller; without it, the ledger holds its lock until it is closed.
        `vfs` names an SQLite file system that was registered with apsw, for tests of failing disks.

        Raises LockError, LedgerCorrupt, LedgerError (too new, not durable there, not readable).
        """
        with ExitStack() as undo, opening.explained(path):
            held = lock or undo.enter_context(acquire(beside(path), role=WRITER))
            if not held.held or held.path != beside(path):
                raise ValueError(f"{held.path} is not the held lock of {path}")
            con = opening.open_writing(path, vfs=vfs or None)
            undo.callback(con.close)
            opened = cls(path, con, on_state, held, owns_lock=lock is None)
            undo.pop_all()
            return opened

    def begin(self) -> None:
        """Start the thread for this event loop, once; raises RuntimeError if no thread can be started."""
        if self._loop is None:
            loop = asyncio.get_running_loop()
            self._thread.start()
            self._loop = loop

    def append(self, entries: Sequence[NewEvent], told: Told = None) -> tuple[list[int], Future]:
        """Append entries; returns their seqs and a future that is done when all are durable, when `told` is called.

        One call is one transaction, completely recorded or not at all. Raises LedgerFailed, before anything is
        assigned, once writing has failed or when far too much waits already.
        """
        size = sum([len(e.body) + len(e.output or b"") for e in entries])
        self._admit(len(entries), size)
        rows = self._tips.rows_of(entries)
        statements = [(schema.APPEND, rows)] if rows else []
        return [row[0] for row in rows], self._put(statements, len(rows), size, told)

    async def snapshot(self, goal: str, seq: int, version: int, state: bytes) -> None:
        """Store the goal's folded state as of `seq`, in place of an earlier one."""
        blob = sealed(goal, seq, version, state)
        await self._write([(schema.KEEP_SNAPSHOT, [(goal, seq, version, blob)])], len(blob))

    async def purge(self, goal: str) -> None:
        """Remove an ended goal's events, outputs and snapshot; what `verify` needs of them stays."""
        await self._write([(sql, [(goal,)]) for sql in schema.PURGE])

    async def _write(self, statements: Statements, size: int = 0) -> None:
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

    def _put(self, statements: Statements, count: int, size: int, told: Told = None) -> Future:
        job = Job(statements, asyncio.Future(loop=self._loop), count, size, told)
        self._pending += count
        self._pending_bytes += size
        self._jobs.put(job)
        return job.done

    async def close(self, timeout_s: float) -> None:
        """Write what waits, then close; what is not durable after `timeout_s` fails."""
        self._close_readers()
        is_open = self.failure is None
        self.failure = self.failure or LedgerFailed(self.path, "closed", "open it again")
        if self._loop is None:
            if is_open:
                self._close_files(clean=True)
        else:
            if self._ended is None:
                self._ended = self._loop.create_future()
                self._jobs.put(None)
            if self._thread.is_alive():
                await asyncio.wait([self._ended], timeout=timeout_s)
                self._give_up.set()
                await asyncio.wait([self._ended], timeout=GIVE_UP_S)
            self._fail_waiting(self.failure)
        if self._thread.is_alive() and not (self._ended and self._ended.done()):
            self._lock.keep()  # it waits for the disk, and may still write afterwards
        elif self._owns_lock:
            self._lock.release()

    # -- on its own thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        """Write jobs until it is to be closed, fails, or is to give up."""
        batch: list[Job] = []
        clean = True
        try:
            while batch := self._next_batch():
                self._commit(batch)
                self._tell(self._deliver, batch)
                if self._checkpoints.is_due:
                    self._checkpoint()
        except LedgerFailed as error:
            clean = False
            self._tell(self._fail, error, batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, no waiter may wait for ever
            clean = False
            what = f"writing failed: {type(error).__name__}: {error}"
            self._tell(self._fail, LedgerFailed(self.path, what, _FAILED_HINT), batch)
        finally:
            self._close_files(clean=clean)
            self._tell(self._end)

    def _next_batch(self) -> list[Job]:
        """Wait for work, then return all of it; empty when the ledger is to be closed."""
        job = self._wait()
        batch: list[Job] = []
        with suppress(Empty):
            while job is not None:
                batch.append(job)
                if len(batch) >= BATCH_JOBS_MAX:
                    return batch
                job = self._jobs.get_nowait()
            self._jobs.put(None)  # the end comes after this batch
        return batch

    def _wait(self) -> Job | None:
        while self._checkpoints.pages:
            try:
                return self._jobs.get(timeout=IDLE_S)
            except Empty:
                self._checkpoint()
        return self._jobs.get()

    def _commit(self, batch: list[Job]) -> None:
        """Make a batch durable, waiting as long as the disk is full or locked by another."""
        statements = [statement for job in batch for statement in job.statements]
        while True:
            started = time.monotonic()
            try:
                if statements:
                    opening.write(self._con, statements)
            except apsw.Error as error:
                opening.roll_back(self._con)
                if not opening.may_be_retried(error, self._con):
                    raise self._final(error) from error
                busy = isinstance(error, apsw.BusyError)
                self._tell_state(LedgerState.SLOW if busy else LedgerState.FULL)
                self._checkpoint()  # where the database has room, the WAL can be used again
                if self._give_up.wait(RETRY_S):
                    raise self._final(error) from error
            else:
                took_s = time.monotonic() - started
                self.commits[bisect_left(BOUNDS_S, took_s)] += 1
                self.commits_s += took_s
                self._tell_state(LedgerState.SLOW if took_s > SLOW_S else LedgerState.OK)
                return

    def _final(self, error: apsw.Error) -> LedgerFailed:
        return LedgerFailed(self.path, f"cannot be written: {error}", _FAILED_HINT)

    def _checkpoint(self) -> None:
        if self._files.fault():
            return  # they are no longer ours to write: the next look at the files reports it
        try:
            with self._files.writing():
                self._checkpoints.run()
        except apsw.Error as error:
            raise self._final(error) from error

    def _close_files(self, *, clean: bool) -> None:
        """Close the database and its files, also if the thread never began; an unclean end leaves SQLite's log."""
        self._con.set_wal_hook(None)
        if clean and not self._files.fault():  # what is another program's by now is not written
            self._con.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        with suppress(apsw.Error):
            self._con.close()
        self._files.close()

    def _tell_state(self, state: LedgerState) -> None:
        if state is not self._told:
            self._told = state
            self._tell(self._show, state)

    def _tell(self, function: Callable[..., None], *args: object) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: no waiter is left
                self._loop.call_soon_threadsafe(function, *args)

    # -- what the thread tells -----------------------------------------------------------------------

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
            if job.told:
                job.told(error)

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
                if job := self._jobs.get_nowait():
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
        if what := self._files.moved():
            con.close()
            raise LedgerLostError(self.path, what, PUT_BACK)
        return con

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
        """Raise LedgerFailed if nothing more can be written, as from now on if its files are not the open ones."""
        if self.failure is None and (what := self._files.fault()):
            self._give_up.set()
            self._fail(LedgerLostError(self.path, f"{what} while it was in use", PUT_BACK), [])
            self._jobs.put(None)
        if self.failure is not None:
            raise self.failure
