"""The writer thread of a ledger: it owns the only connection that writes and checkpoints.

It takes everything that waits and commits it as one transaction, so that many waiters share one fsync, and wakes them
all with one call to the event loop. It waits while the disk is full; a failed fsync is never retried, because the
kernel has marked the pages clean and a second fsync would report success.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import apsw

from clew_shared.ledger.errors import CommitTimes, LedgerFailed, LedgerLostError, LedgerState
from clew_shared.ledger.open_files import OpenFiles
from clew_shared.ledger.opening import Checkpoints, may_be_retried, roll_back

RETRY_S = 1.0  # between attempts while the disk is full
SLOW_S = 1.0  # a commit that takes longer is reported
IDLE_S = 1.0  # without work, before the log is moved into the database
GIVE_UP_S = 0.5  # for a thread that must not retry any more
BATCH_JOBS_MAX = 1_000  # in one transaction, so that no waiter waits for ever
PENDING_MAX = 100_000
PENDING_BYTES_MAX = 256 << 20

PUT_BACK = "put its files back, or restore a backup (`clew restore FILE`); nothing more is recorded"
_FAILED_HINT = (
    "nothing more is recorded: stop, repair the disk, and start again; "
    "everything acknowledged is kept"
)

Statement = tuple[str, Sequence[tuple[Any, ...]]]
"""SQL, and the rows that it is executed with."""


@dataclass(frozen=True, slots=True)
class Job:
    """Statements with their rows that become durable together, and the future that waits for it."""

    statements: Sequence[Statement]
    done: asyncio.Future[None]
    count: int = 0
    size: int = 0  # bytes


class Writer:
    """Queues what is to be written, writes it on its own thread, and wakes those who wait for it.

    `state`, `error` and the counts of what is `pending` belong to the event loop's thread; `on_state` is called there.
    """

    def __init__(
        self,
        path: Path,
        con: apsw.Connection,
        on_state: Callable[[LedgerState], None] | None,
        files: OpenFiles,
    ) -> None:
        self.path = path
        self.state = LedgerState.OK
        self.error: LedgerFailed | None = None
        self.pending = 0
        self.pending_bytes = 0
        self.times = CommitTimes()
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()  # None: the ledger is to be closed
        self._on_state = on_state
        self._reported = LedgerState.OK  # by the thread
        self._con, self._cursor, self._files = con, con.cursor(), files
        self._checkpoints = Checkpoints(con, pages=1)  # what an earlier run left is moved when idle
        self._give_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None

    # -- on the event loop's thread ------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """Return whether nothing can be written any more."""
        return not self._thread.is_alive() or (self._ended is not None and self._ended.done())

    def begin(self) -> asyncio.AbstractEventLoop:
        """Start the thread for this event loop, once; raises RuntimeError if no thread can be started."""
        if self._loop is None:
            loop = asyncio.get_running_loop()
            self._thread.start()
            self._loop = loop
        return self._loop

    def admit(self, count: int, size: int) -> None:
        """Check that `count` more records of `size` bytes may wait; raises LedgerFailed."""
        if self.error is not None:
            raise self.error
        if self.pending + count > PENDING_MAX or self.pending_bytes + size > PENDING_BYTES_MAX:
            what = f"{self.pending} records ({self.pending_bytes} bytes) are waiting to be written"
            raise LedgerFailed(self.path, what, "free disk space, or find out why it is slow")
        self.begin()

    def put(
        self, statements: Sequence[Statement], count: int, size: int = 0
    ) -> asyncio.Future[None]:
        """Queue what was admitted; the future is done when all of it is durable."""
        job = Job(statements, self.begin().create_future(), count, size)
        self.pending += count
        self.pending_bytes += size
        self.jobs.put(job)
        return job.done

    async def stop(self, timeout_s: float) -> None:
        """Write what waits, then close; what is not durable after `timeout_s` fails."""
        closed = LedgerFailed(self.path, "closed", "open it again")
        if self._loop is None:
            if self.error is None:
                self.error = closed
                self._close(clean=True)
            return
        self.error = self.error or closed
        if self._ended is None:
            self._ended = self._loop.create_future()
            self.jobs.put(None)
        if self._thread.is_alive():
            await asyncio.wait([self._ended], timeout=timeout_s)
            self._give_up.set()
            await asyncio.wait([self._ended], timeout=GIVE_UP_S)
        self._fail_waiting(self.error)

    def lose(self, what: str) -> LedgerLostError:
        """Write nothing more, since the files are no longer the ledger's; returns what every later call raises."""
        lost = LedgerLostError(self.path, f"{what} while it was in use", PUT_BACK)
        if self.error is None:
            self._give_up.set()
            self._fail(lost, [])
            self.jobs.put(None)
        return lost

    def deliver(self, jobs: list[Job], error: LedgerFailed | None = None) -> None:
        """Wake those who wait for jobs that are durable, or failed."""
        lost = self.error if isinstance(self.error, LedgerLostError) else None
        error = lost or error  # what was written into files that are gone is not recorded
        for job in jobs:
            self.pending -= job.count
            self.pending_bytes -= job.size
            if job.done.done():
                continue
            if error is None:
                job.done.set_result(None)
            else:
                job.done.set_exception(error)
                job.done.exception()  # retrieved: awaiting it is optional, `on_state` reports it too

    def _fail(self, error: LedgerFailed, jobs: list[Job]) -> None:
        is_first = not isinstance(self.error, LedgerLostError)
        if is_first:
            self.error = error
        self.deliver(jobs, error)
        self._fail_waiting(error)
        if is_first:
            self._show(LedgerState.FAILED)

    def _fail_waiting(self, error: LedgerFailed) -> None:
        with suppress(Empty):
            while True:
                if job := self.jobs.get_nowait():
                    self.deliver([job], error)

    def _show(self, state: LedgerState) -> None:
        self.state = state
        if self._on_state is not None:
            self._on_state(state)

    def _end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    # -- on the writer's own thread ------------------------------------------------------------------

    def _run(self) -> None:
        batch: list[Job] = []
        clean = True
        try:
            while batch := self._next_batch():
                self._commit(batch)
                self._call(self.deliver, batch)
                if self._checkpoints.is_due:
                    self._checkpoint()
        except LedgerFailed as error:
            clean = False
            self._call(self._fail, error, batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, no waiter may wait for ever
            clean = False
            what = f"writing failed: {type(error).__name__}: {error}"
            self._call(self._fail, LedgerFailed(self.path, what, _FAILED_HINT), batch)
        finally:
            self._close(clean=clean)
            self._call(self._end)

    def _next_batch(self) -> list[Job]:
        """Wait for work, then return all of it; empty when the ledger is to be closed."""
        job = self._wait()
        batch: list[Job] = []
        with suppress(Empty):
            while job is not None:
                batch.append(job)
                if len(batch) >= BATCH_JOBS_MAX:
                    return batch
                job = self.jobs.get_nowait()
            self.jobs.put(None)  # the end comes after this batch
        return batch

    def _wait(self) -> Job | None:
        while self._checkpoints.pages:
            try:
                return self.jobs.get(timeout=IDLE_S)
            except Empty:
                self._checkpoint()
        return self.jobs.get()

    def _commit(self, batch: list[Job]) -> None:
        """Make a batch durable, waiting as long as the disk is full or locked by another."""
        while True:
            started = time.monotonic()
            try:
                self._transact(batch)
            except apsw.Error as error:
                roll_back(self._con)
                if not may_be_retried(error, self._con):
                    raise self._final(error) from error
                busy = isinstance(error, apsw.BusyError)
                self._report(LedgerState.SLOW if busy else LedgerState.FULL)
                self._checkpoint()  # where the database has room, the WAL can be used again
                if self._give_up.wait(RETRY_S):
                    raise self._final(error) from error
            else:
                took_s = time.monotonic() - started
                self.times.add(took_s)
                self._report(LedgerState.SLOW if took_s > SLOW_S else LedgerState.OK)
                return

    def _transact(self, batch: list[Job]) -> None:
        statements = [statement for job in batch for statement in job.statements]
        if len(statements) == 1 and len(statements[0][1]) == 1:
            sql, rows = statements[0]
            self._cursor.execute(sql, rows[0])  # autocommit: a transaction of its own
        elif statements:
            self._cursor.execute("BEGIN IMMEDIATE")
            for sql, rows in statements:
                self._cursor.executemany(sql, rows)
            self._cursor.execute("COMMIT")

    def _final(self, error: apsw.Error) -> LedgerFailed:
        return LedgerFailed(self.path, f"cannot be written: {error}", _FAILED_HINT)

    def _checkpoint(self) -> None:
        if self._files.is_overwritten():
            return  # it is no longer ours to write: the next check of the files reports it
        try:
            with self._files.writing():
                self._checkpoints.run()
        except apsw.Error as error:
            raise self._final(error) from error

    def _close(self, *, clean: bool) -> None:
        """Close the database and its files; an unclean end leaves SQLite's log as it is. Also if it never started.

        Files that are another program's by now are not written.
        """
        self._con.set_wal_hook(None)
        if clean and not self._files.fault():
            self._con.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        with suppress(apsw.Error):
            self._con.close()
        self._files.close()

    def _report(self, state: LedgerState) -> None:
        if state is not self._reported:
            self._reported = state
            self._call(self._show, state)

    def _call(self, function: Callable[..., None], *args: Any) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: no waiter is left
                self._loop.call_soon_threadsafe(function, *args)
