"""What a daemon does all its life goes on after a passing fault of disk or ledger."""

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from clew_daemon.host import tasks
from clew_daemon.host.tasks import GoalQueue, LastKnown
from clew_shared.ledger.errors import LedgerError

FAULTS = [
    LedgerError(Path("/ledger.db"), "cannot be used: unable to open database file", "wait"),
    OSError(errno.EMFILE, "Too many open files"),
]


@pytest.mark.parametrize("fault", FAULTS)
async def test_housekeeping_reports_and_reviews_go_on_after_a_fault(monkeypatch, fault):
    monkeypatch.setattr(tasks, "RETRY_S", 0.0)
    faults, well, failed = [fault, fault], asyncio.Semaphore(0), []

    async def work(*_goal):
        if faults:
            raise faults.pop()
        well.release()

    queue = GoalQueue(work, lambda *failure: failed.append(failure))
    queue.due("a")
    queue.start()
    async with asyncio.timeout(60):
        await well.acquire()
    await queue.stop()
    assert failed == [("a", fault)] * 2
    faults.append(fault)
    sweeping = tasks.start(tasks.repeat("sweep", 0.0, work))
    async with asyncio.timeout(60):
        await well.acquire()
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)


async def test_a_look_that_takes_too_long_is_what_is_known_at_the_next():
    go_on, found = threading.Semaphore(0), iter((1, 2))

    def look():
        go_on.acquire()
        return next(found)

    known = LastKnown(look, 0)
    assert await known.now(0) == 0
    go_on.release()
    async with asyncio.timeout(60):
        while not known._task.done():  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0)
    assert await known.now(0) == 1
    go_on.release()
