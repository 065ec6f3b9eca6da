"""The writer thread: it owns the only connection that writes and checkpoints.

It takes everything that waits and commits it as one transaction, so that many waiters share one fsync, and wakes them
all with one call to the event loop. It waits while the disk is full; a failed fsync is never retried, because the
kernel has marked the pages clean and a second fsync would report success.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

import apsw

from clew_shared.ledger.checkpoint import Checkpoints, is_full
from clew_shared.ledger.errors import CommitTimes, LedgerFailed, LedgerState

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

    from clew_shared.ledger.open_files import OpenFiles

RETRY_S = 1.0  # between attempts while the disk is full
SLOW_S = 1.0  # a commit that takes longer is reported
IDLE_S = 1.0  # without work, before the log is moved into the database
BATCH_JOBS_MAX = 1_000  # in one transaction, so that no waiter waits for ever

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


class WriterReports(Protocol):
    """What the thread reports; each is called on the event loop's thread, in order."""

    def deliver(self, jobs: list[Job]) -> None: ...
    def fail(self, error: LedgerFailed, jobs: list[Job]) -> None: ...
    def show(self, state: LedgerState) -> None: ...
    def end(self) -> None: ...


class WriterThread:
    """Writes the `jobs` until it takes None from them; `give_up`: it retries nothing any more."""

    def __init__(
        self,
        path: Path,
        con: apsw.Connection,
        files: OpenFiles,
        reports: WriterReports,
    ) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.give_up = threading.Event()
        self.times = CommitTimes()
        self._path = path
        self._con = con
        self._cursor = con.cursor()
        self._files = files
        self._reports = reports
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reported = LedgerState.OK
        self._checkpoints = Checkpoints(con, pages=1)  # what an earlier run left is moved when idle
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start writing; raises RuntimeError if no thread can be started."""
        self._thread.start()
        self._loop = loop

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def close(self, *, clean: bool) -> None:
        """Close the database and its files; an unclean end leaves SQLite's log as it is. Also if it never started.

        Files that are another program's by now are not written.
        """
        self._con.set_wal_hook(None)
        if clean and not self._files.fault():
            self._con.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        with suppress(apsw.Error):
            self._con.close()
        self._files.close()

    def _run(self) -> None:
        batch: list[Job] = []
        clean = True
        try:
            while batch := self._next_batch():
                self._commit(batch)
                self._call(self._reports.deliver, batch)
                if self._checkpoints.is_due:
                    self._checkpoint()
        except LedgerFailed as error:
            clean = False
            self._call(self._reports.fail, error, batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, no waiter may wait for ever
            clean = False
            what = f"writing failed: {type(error).__name__}: {error}"
            self._call(self._reports.fail, LedgerFailed(self._path, what, _FAILED_HINT), batch)
        finally:
            self.close(clean=clean)
            self._call(self._reports.end)

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
                self._roll_back()
                if not (is_full(error, self._con) or isinstance(error, apsw.BusyError)):
                    raise self._final(error) from error
                busy = isinstance(error, apsw.BusyError)
                self._report(LedgerState.SLOW if busy else LedgerState.FULL)
                self._checkpoint()  # where the database has room, the WAL can be used again
                if self.give_up.wait(RETRY_S):
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
        return LedgerFailed(self._path, f"cannot be written: {error}", _FAILED_HINT)

    def _checkpoint(self) -> None:
        if self._files.is_overwritten():
            return  # it is no longer ours to write: the next check of the files reports it
        try:
            with self._files.writing():
                self._checkpoints.run()
        except apsw.Error as error:
            if not (is_full(error, self._con) or isinstance(error, apsw.BusyError)):
                raise self._final(error) from error
            self._checkpoints.postpone()

    def _report(self, state: LedgerState) -> None:
        if state is not self._reported:
            self._reported = state
            self._call(self._reports.show, state)

    def _call(self, function: Callable[..., None], *args: Any) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: no waiter is left
                self._loop.call_soon_threadsafe(function, *args)
