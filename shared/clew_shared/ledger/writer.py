"""The writer thread: it owns the only connection that writes and checkpoints.

It takes everything that waits and commits it as one transaction, so that many waiters share one fsync, and wakes them
all with one call to the event loop. It waits while the disk is full; a failed fsync is never retried, because the
kernel has marked the pages clean and a second fsync would report success.

Only `_run` and what it calls is on the writer thread. Queue counts, state and error are touched on the event loop's
thread alone, so they need no lock.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import apsw

from clew_shared.ledger.checkpoint import Checkpoints, is_full
from clew_shared.ledger.errors import LedgerFailed, LedgerLostError
from clew_shared.ledger.records import LedgerState
from clew_shared.ledger.rescue import Rescue, Rescued

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from clew_shared.ledger.place import Place

RETRY_S = 1.0  # between attempts while the disk is full
GIVE_UP_S = 0.5  # for a thread that must not retry any more
SLOW_S = 1.0  # a commit that takes longer is reported
IDLE_S = 1.0  # without work, before the log is moved into the database
BATCH_JOBS_MAX = 1_000  # in one transaction, so that no waiter waits for ever
PENDING_MAX = 100_000
PENDING_BYTES_MAX = 256 << 20

RESCUING = "the daemon accepts and judges nothing more, saves what was recorded, and stops"
_FAILED_HINT = (
    "nothing more is recorded: stop, repair the disk, and start again; "
    "everything acknowledged is kept"
)


@dataclass(frozen=True, slots=True)
class Job:
    """Statements with their rows that become durable together, and the future that waits for it."""

    statements: Sequence[tuple[str, Sequence[tuple[Any, ...]]]]
    done: asyncio.Future[None]
    count: int = 0
    size: int = 0  # bytes


class Writer:
    """The queue to the writer thread, and the state of writing."""

    def __init__(
        self,
        path: Path,
        con: apsw.Connection,
        on_state: Callable[[LedgerState], None] | None,
        place: Place,
        refuges: Sequence[Path],
    ) -> None:
        self.path = path
        self.state = LedgerState.OK
        self.error: LedgerFailed | None = None
        self.pending = 0
        self.pending_bytes = 0
        self.rescued: asyncio.Future[Rescued] | None = None
        """Set when the ledger was lost."""
        self.keeps_log = False
        self._place = place
        self._refuges = refuges
        self._abandoned = threading.Event()
        self._con = con
        self._cursor = con.cursor()
        self._on_state = on_state
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._give_up = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None
        self._reported = LedgerState.OK  # the writer thread's view of `state`
        self._checkpoints = Checkpoints(con, pages=1)  # what an earlier run left is moved when idle
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)

    # On the event loop's thread.

    @property
    def stopped(self) -> bool:
        """Return whether nothing can be written any more."""
        return not self._thread.is_alive() or (self._ended is not None and self._ended.done())

    def admit(self, count: int, size: int) -> asyncio.AbstractEventLoop:
        """Check that `count` more records of `size` bytes may wait; raises LedgerFailed."""
        if self.error is not None:
            raise self.error
        if self.pending + count > PENDING_MAX or self.pending_bytes + size > PENDING_BYTES_MAX:
            what = f"{self.pending} records ({self.pending_bytes} bytes) are waiting to be written"
            raise LedgerFailed(self.path, what, "free disk space, or find out why it is slow")
        return self._loop or self.begin()

    def begin(self) -> asyncio.AbstractEventLoop:
        """Start the thread for this event loop, once; raises RuntimeError if no thread can be started."""
        if self._loop is None:
            loop = asyncio.get_running_loop()
            self._thread.start()
            self._loop = loop
        return self._loop

    def put(self, job: Job) -> None:
        self.pending += job.count
        self.pending_bytes += job.size
        self._jobs.put(job)

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
            self._jobs.put(None)
        if self._thread.is_alive():
            await asyncio.wait([self._ended], timeout=timeout_s)
            self._give_up.set()
            await asyncio.wait([self._ended], timeout=GIVE_UP_S)
        self._fail_waiting(self.error)

    def lose(self, what: str) -> LedgerLostError:
        """Write nothing more, since the files are no longer the ledger's, and save what it holds.

        Returns the error that every later call raises.
        """
        lost = LedgerLostError(self.path, f"{what} while it was in use", RESCUING)
        if self.error is not None:
            return lost
        self.error = lost
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._thread.start()
        self.rescued = self._loop.create_future()
        self._give_up.set()
        self._fail_waiting(lost)
        self._jobs.put(None)
        self._tell(LedgerState.FAILED)
        return lost

    def abandon(self) -> None:
        """Stop waiting for room for what is being saved."""
        self._abandoned.set()

    def _saved(self, found: Rescued) -> None:
        if self.error is not None and self.rescued is not None:
            self.error = LedgerLostError(self.path, self.error.what, found.message)
            self.rescued.set_result(found)

    def _tell_unsaved(self, why: str) -> None:
        if self.error is not None:
            hint = f"what it held cannot be saved until there is space ({why})"
            self.error = LedgerLostError(self.path, self.error.what, hint)
            self._tell(LedgerState.FAILED)

    def _deliver(self, jobs: list[Job], error: LedgerFailed | None = None) -> None:
        error = error or (self.error if self.rescued is not None else None)
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
        if self.rescued is not None:
            self._deliver(jobs)
            return
        self.error = error
        self._deliver(jobs, error)
        self._fail_waiting(error)
        self._tell(LedgerState.FAILED)

    def _fail_waiting(self, error: LedgerFailed) -> None:
        waiting: list[Job] = []
        with suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    waiting.append(job)
        self._deliver(waiting, error)

    def _tell(self, state: LedgerState) -> None:
        self.state = state
        if self._on_state is not None:
            self._on_state(state)

    def _end(self) -> None:
        if self.rescued is not None and not self.rescued.done():
            # the thread had failed before the files were found to be lost
            what = "writing failed at the same moment, and nothing was saved: put the files back, or restore a backup"
            self._saved(Rescued(f"{what} (`clew restore FILE`)"))
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    # On the writer thread.

    def _run(self) -> None:
        batch: list[Job] = []
        clean = True
        try:
            while batch := self._next_batch():
                self._commit(batch)
                self._call(self._deliver, batch)
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
            if self.rescued is not None:
                clean = False
                self._save()
            self._close(clean=clean)
            self._call(self._end)

    def _save(self) -> None:
        def tell(why: str) -> None:
            self._call(self._tell_unsaved, why)

        folders = (self.path.parent, *self._refuges)
        rescue = Rescue(self._con, self._place, folders, self._abandoned.wait, tell)
        try:
            found = rescue.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, someone waits for the end
            found = Rescued(f"what it held could not be saved: {type(error).__name__}: {error}")
        self._call(self._saved, found)

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
        while True:
            started = time.monotonic()
            try:
                self._transact(batch)
            except apsw.Error as error:
                self._roll_back()
                if not (is_full(error, self._con) or isinstance(error, apsw.BusyError)):
                    raise self._final(error) from error
                busy = isinstance(error, apsw.BusyError)
                self._report(LedgerState.SLOW if busy else LedgerState.FULL)
                self._checkpoint()  # where the database has room, the WAL can be used again
                if self._give_up.wait(RETRY_S):
                    raise self._final(error) from error
            else:
                slow = time.monotonic() - started > SLOW_S
                self._report(LedgerState.SLOW if slow else LedgerState.OK)
                return

    def _transact(self, batch: list[Job]) -> None:
        statements = [statement for job in batch for statement in job.statements]
        if len(statements) == 1 and len(statements[0][1]) == 1:
            sql, rows = statements[0]
            # autocommit: a transaction of its own; some statements work only while rows are taken
            self._cursor.execute(sql, rows[0]).fetchall()
        elif statements:
            self._cursor.execute("BEGIN IMMEDIATE")
            for sql, rows in statements:
                self._cursor.executemany(sql, rows).fetchall()
            self._cursor.execute("COMMIT")

    def _roll_back(self) -> None:
        if self._con.in_transaction:
            with suppress(apsw.Error):  # the first error is the one to report
                self._con.execute("ROLLBACK")

    def _final(self, error: apsw.Error) -> LedgerFailed:
        return LedgerFailed(self.path, f"cannot be written: {error}", _FAILED_HINT)

    def _checkpoint(self) -> None:
        if self._place.is_overwritten():
            return  # it is no longer ours to write: the next check of the files reports it
        try:
            with self._place.writing():
                self._checkpoints.run()
        except apsw.Error as error:
            if not (is_full(error, self._con) or isinstance(error, apsw.BusyError)):
                raise self._final(error) from error
            self._checkpoints.postpone()

    def _report(self, state: LedgerState) -> None:
        if state is not self._reported:
            self._reported = state
            self._call(self._tell, state)

    def _call(self, function: Callable[..., None], *args: Any) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: no waiter is left
                self._loop.call_soon_threadsafe(function, *args)

    def _close(self, *, clean: bool) -> None:
        self._con.set_wal_hook(None)
        if clean and not self.keeps_log:
            self._con.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        with suppress(apsw.Error):
            self._con.close()
        self._place.close()
