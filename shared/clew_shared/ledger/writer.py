"""The thread that writes a ledger: it owns the only connection that writes and checkpoints.

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

import apsw

from clew_shared.ledger.errors import CommitTimes, LedgerFailed, LedgerState
from clew_shared.ledger.opening import (
    Checkpoints,
    OpenFiles,
    Statement,
    may_be_retried,
    roll_back,
    write,
)

RETRY_S = 1.0  # between attempts while the disk is full
SLOW_S = 1.0  # a commit that takes longer is reported
IDLE_S = 1.0  # without work, before the log is moved into the database
BATCH_JOBS_MAX = 1_000  # in one transaction, so that no waiter waits for ever

_FAILED_HINT = (
    "nothing more is recorded: stop, repair the disk, and start again; "
    "everything acknowledged is kept"
)


@dataclass(frozen=True, slots=True)
class Job:
    """Statements with their rows that become durable together, and the future that waits for it."""

    statements: Sequence[Statement]
    done: asyncio.Future[None]
    count: int = 0
    size: int = 0  # bytes


@dataclass(frozen=True, slots=True)
class Told:
    """What the thread's news are passed to, on the event loop: jobs that are durable or failed, a state, its end."""

    durable: Callable[[list[Job]], None]
    failed: Callable[[LedgerFailed, list[Job]], None]
    state: Callable[[LedgerState], None]
    ended: Callable[[], None]


class Writer:
    """Writes the `jobs` (None: the ledger is to be closed) on its own thread, until `give_up` is set or it fails."""

    def __init__(self, path: Path, con: apsw.Connection, told: Told) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.give_up = threading.Event()
        self.times = CommitTimes()
        self.files = OpenFiles(path)
        self.loop: asyncio.AbstractEventLoop | None = None
        self._path, self._con, self._told = path, con, told
        self._state = LedgerState.OK  # as told
        self._checkpoints = Checkpoints(con, pages=1)  # what an earlier run left is moved when idle
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)

    @property
    def runs(self) -> bool:
        """Return whether the thread is alive."""
        return self._thread.is_alive()

    def begin(self) -> asyncio.AbstractEventLoop:
        """Start the thread for this event loop, once; raises RuntimeError if no thread can be started."""
        if self.loop is None:
            loop = asyncio.get_running_loop()
            self._thread.start()
            self.loop = loop
        return self.loop

    def close(self, *, clean: bool) -> None:
        """Close the database and its files, also if the thread never began; an unclean end leaves SQLite's log.

        Files that are another program's by now are not written.
        """
        self._con.set_wal_hook(None)
        if clean and not self.files.fault():
            self._con.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        with suppress(apsw.Error):
            self._con.close()
        self.files.close()

    # -- on its own thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        batch: list[Job] = []
        clean = True
        try:
            while batch := self._next_batch():
                self._commit(batch)
                self._tell(self._told.durable, batch)
                if self._checkpoints.is_due:
                    self._checkpoint()
        except LedgerFailed as error:
            clean = False
            self._tell(self._told.failed, error, batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, no waiter may wait for ever
            clean = False
            what = f"writing failed: {type(error).__name__}: {error}"
            self._tell(self._told.failed, LedgerFailed(self._path, what, _FAILED_HINT), batch)
        finally:
            self.close(clean=clean)
            self._tell(self._told.ended)

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
        statements = [statement for job in batch for statement in job.statements]
        while True:
            started = time.monotonic()
            try:
                if statements:
                    write(self._con, statements)
            except apsw.Error as error:
                roll_back(self._con)
                if not may_be_retried(error, self._con):
                    raise self._final(error) from error
                busy = isinstance(error, apsw.BusyError)
                self._show(LedgerState.SLOW if busy else LedgerState.FULL)
                self._checkpoint()  # where the database has room, the WAL can be used again
                if self.give_up.wait(RETRY_S):
                    raise self._final(error) from error
            else:
                took_s = time.monotonic() - started
                self.times.add(took_s)
                self._show(LedgerState.SLOW if took_s > SLOW_S else LedgerState.OK)
                return

    def _final(self, error: apsw.Error) -> LedgerFailed:
        return LedgerFailed(self._path, f"cannot be written: {error}", _FAILED_HINT)

    def _checkpoint(self) -> None:
        if self.files.fault():
            return  # they are no longer ours to write: the next look at the files reports it
        try:
            with self.files.writing():
                self._checkpoints.run()
        except apsw.Error as error:
            raise self._final(error) from error

    def _show(self, state: LedgerState) -> None:
        if state is not self._state:
            self._state = state
            self._tell(self._told.state, state)

    def _tell(self, function: Callable[..., None], *args: object) -> None:
        if self.loop is not None:
            with suppress(RuntimeError):  # the loop is closed: no waiter is left
                self.loop.call_soon_threadsafe(function, *args)
