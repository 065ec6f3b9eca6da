"""What a daemon does all its life goes on after a passing fault, and never ends without a word."""

import asyncio
import errno
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from clew_daemon.control.server import Control
from clew_daemon.host import tasks
from clew_daemon.host.tasks import GoalQueue
from clew_shared.ledger import LedgerCorrupt, LedgerError, LedgerFailed, LedgerUnwell

LEDGER = Path("/ledger.db")
PASSING = (
    LedgerError(LEDGER, "cannot be used: unable to open database file", "wait"),  # no descriptors
    LedgerUnwell(LEDGER, "the disk is full", "make room"),
    OSError(errno.EMFILE, "Too many open files"),
)


class Faulty:
    """Raises the faults one after the other, then sets `well`."""

    def __init__(self, *faults):
        self.faults, self.well = list(faults), asyncio.Event()

    async def __call__(self, *_):
        if self.faults:
            raise self.faults.pop(0)
        self.well.set()


async def is_well(work, task):
    waiting = asyncio.ensure_future(work.well.wait())
    await asyncio.wait([waiting, task], timeout=60, return_when=asyncio.FIRST_COMPLETED)
    assert work.well.is_set()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_housekeeping_goes_on_after_passing_faults():
    work = Faulty(*PASSING)
    with capture_logs() as lines:
        await is_well(work, tasks.start(tasks.repeat("sweep", 0.0, work)))
    assert [line["event"] for line in lines] == ["housekeeping.deferred"] * len(PASSING)


@pytest.mark.parametrize("fault", [*PASSING, LedgerCorrupt(LEDGER, "damaged", "restore")])
async def test_reports_and_reviews_go_on_after_a_fault_of_one_goal(monkeypatch, fault):
    """Any fault of the ledger ended them until the next start, and no goal was ever settled any more."""
    monkeypatch.setattr(tasks, "RETRY_S", 0.0)
    work, failed = Faulty(fault), []
    queue = GoalQueue(work, lambda *failure: failed.append(failure))
    queue.due("a")
    queue.due("b")
    queue.start()
    async with asyncio.timeout(60):
        await work.well.wait()
    await queue.stop()
    assert failed == [("a", fault)]


async def test_what_ends_by_a_bug_says_so_and_what_ends_with_the_ledger_does_not():
    with capture_logs() as lines:
        for fault in (KeyError("x"), LedgerFailed(LEDGER, "closed", "open it again")):
            task = tasks.start(Faulty(fault)())
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.sleep(0)
    assert [line["event"] for line in lines] == ["daemon.bug"]


async def test_a_person_is_told_in_words_of_a_ledger_that_cannot_be_read():
    """The connection ended without an answer, and the log had a bug of the daemon's."""

    async def status(_):
        raise LedgerCorrupt(LEDGER, "event 3 was changed", "restore a backup")

    asked = b'{"jsonrpc": "2.0", "id": 1, "method": "status", "params": {}}\n'
    answer, _ = await Control(Path("/nowhere"), {"status": status})._answer(asked)
    assert b"event 3 was changed; restore a backup" in answer
