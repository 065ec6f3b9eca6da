"""The queue to the writer thread, and the state of writing, as the event loop's thread sees them.

Counts, state and error are touched on that thread alone, so they need no lock; what runs on the writer's own is in
`writer_thread`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING

from clew_shared.ledger.errors import LedgerFailed, LedgerLostError, LedgerState
from clew_shared.ledger.writer_thread import Job, WriterThread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import apsw

    from clew_shared.ledger.errors import CommitTimes
    from clew_shared.ledger.open_files import OpenFiles
    from clew_shared.ledger.writer_thread import Statement

GIVE_UP_S = 0.5  # for a thread that must not retry any more
PENDING_MAX = 100_000
PENDING_BYTES_MAX = 256 << 20

PUT_BACK = "put its files back, or restore a backup (`clew restore FILE`); nothing more is recorded"


class Writer:
    """Admits and queues what is to be written, and wakes those who wait for it."""

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
        self._on_state = on_state
        self._thread = WriterThread(path, con, files, self)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None

    @property
    def stopped(self) -> bool:
        """Return whether nothing can be written any more."""
        return not self._thread.is_alive() or (self._ended is not None and self._ended.done())

    @property
    def times(self) -> CommitTimes:
        """How long commits took."""
        return self._thread.times

    def admit(self, count: int = 1, size: int = 0) -> None:
        """Check that `count` more records of `size` bytes may wait; raises LedgerFailed."""
        if self.error is not None:
            raise self.error
        if self.pending + count > PENDING_MAX or self.pending_bytes + size > PENDING_BYTES_MAX:
            what = f"{self.pending} records ({self.pending_bytes} bytes) are waiting to be written"
            raise LedgerFailed(self.path, what, "free disk space, or find out why it is slow")
        self.begin()

    def begin(self) -> asyncio.AbstractEventLoop:
        """Start the thread for this event loop, once; raises RuntimeError if no thread can be started."""
        if self._loop is None:
            loop = asyncio.get_running_loop()
            self._thread.start(loop)
            self._loop = loop
        return self._loop

    def put(
        self, statements: Sequence[Statement], count: int = 1, size: int = 0
    ) -> asyncio.Future[None]:
        """Queue what was admitted; the future is done when all of it is durable."""
        job = Job(statements, self.begin().create_future(), count, size)
        self.pending += count
        self.pending_bytes += size
        self._thread.jobs.put(job)
        return job.done

    async def stop(self, timeout_s: float) -> None:
        """Write what waits, then close; what is not durable after `timeout_s` fails."""
        closed = LedgerFailed(self.path, "closed", "open it again")
        if self._loop is None:
            if self.error is None:
                self.error = closed
                self._thread.close(clean=True)
            return
        self.error = self.error or closed
        if self._ended is None:
            self._ended = self._loop.create_future()
            self._thread.jobs.put(None)
        if self._thread.is_alive():
            await asyncio.wait([self._ended], timeout=timeout_s)
            self._thread.give_up.set()
            await asyncio.wait([self._ended], timeout=GIVE_UP_S)
        self._fail_waiting(self.error)

    def lose(self, what: str) -> LedgerLostError:
        """Write nothing more, since the files are no longer the ledger's; returns what every later call raises."""
        lost = LedgerLostError(self.path, f"{what} while it was in use", PUT_BACK)
        if self.error is None:
            self._thread.give_up.set()
            self.fail(lost, [])
            self._thread.jobs.put(None)
        return lost

    # What the thread reports.

    def deliver(self, jobs: list[Job], error: LedgerFailed | None = None) -> None:
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

    def fail(self, error: LedgerFailed, jobs: list[Job]) -> None:
        is_first = not isinstance(self.error, LedgerLostError)
        if is_first:
            self.error = error
        self.deliver(jobs, error)
        self._fail_waiting(error)
        if is_first:
            self.show(LedgerState.FAILED)

    def _fail_waiting(self, error: LedgerFailed) -> None:
        waiting: list[Job] = []
        with suppress(Empty):
            while True:
                job = self._thread.jobs.get_nowait()
                if job is not None:
                    waiting.append(job)
        self.deliver(waiting, error)

    def show(self, state: LedgerState) -> None:
        self.state = state
        if self._on_state is not None:
            self._on_state(state)

    def end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
