"""What a daemon does all its life goes on after a passing fault, and never ends without a word."""

import asyncio
import errno
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from clew_daemon.control.server import Control
from clew_daemon.host import tasks
from clew_daemon.host.tasks import GoalQueue
from clew_daemon.processes.endings import Ended
from clew_daemon.publish.publisher import Publisher
from clew_daemon.supervision import goal_run, reports, scheduler
from clew_daemon.supervision.reports import ReportWriter
from clew_daemon.supervision.restart import RestartHistory, Waits
from clew_daemon.supervision.retention import Retention, clear
from clew_shared.config.tables import Settings
from clew_shared.ledger import LedgerCorrupt, LedgerError, LedgerFailed, LedgerUnwell
from clew_shared.record import events as ev
from clew_shared.record.state import State

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


def parts():
    book = SimpleNamespace(listeners=[], cores={"a": None}, states=dict, gone={})
    return SimpleNamespace(goals=book, settings=Settings(), started={}, nursery=None)


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


async def test_a_goal_whose_report_failed_is_reported_later(monkeypatch):
    monkeypatch.setattr(tasks, "RETRY_S", 0.0)
    worked, fault = [], OSError(errno.ENOSPC, "No space left on device")

    async def work(goal):
        worked.append(goal)
        if worked == ["a"]:
            raise fault
        if goal == "a":
            done.set()

    done, queue = asyncio.Event(), GoalQueue(work, lambda *_: None)
    queue.due("a")
    queue.due("b")
    queue.start()
    async with asyncio.timeout(60):
        await done.wait()
    await queue.stop()
    assert worked == ["a", "b", "a"]


async def test_a_block_while_the_report_of_the_last_one_is_written_is_reported_too(
    monkeypatch, tmp_path
):
    """The event that the first report was written covered both, and the second question was in no report."""
    daemon, core, written, emitted = parts(), reported_core(), [], []
    writer = ReportWriter(daemon, lambda _: None, lambda _: False)
    daemon.goals.cores = {"a": core}
    daemon.goals.ledger = SimpleNamespace(own=lambda *_: [])
    daemon.publisher = SimpleNamespace(settle=Faulty())
    daemon.playbook = SimpleNamespace(current=None)
    daemon.places = SimpleNamespace(outbox=tmp_path)

    def write(_outbox, state, _text):
        written.append(state.rested_seq)
        if len(written) == 1:
            state.rested_seq = 9  # answered, and blocked again
            loop.call_soon_threadsafe(writer.due, "a")

    async def emit(core, event):
        core.state.reported_seq = core.state.rested_seq + 1
        emitted.append(type(event))
        done.set()

    loop, done = asyncio.get_running_loop(), asyncio.Event()
    monkeypatch.setattr(reports.pages, "actions", lambda *_, **__: ([], None))
    monkeypatch.setattr(reports.pages, "loops", lambda *_, **__: ([], None))
    monkeypatch.setattr(reports.report, "render", lambda *_: "")
    monkeypatch.setattr(reports.report, "write", write)
    daemon.goals.emit = emit
    writer.due("a")
    await writer.start()
    async with asyncio.timeout(60):
        await done.wait()
    await writer.stop()
    assert (written, emitted) == ([3, 9], [ev.Reported])


def reported_core():
    state = State(goal_id="a", rested_seq=3, reported_seq=1)
    return SimpleNamespace(state=state)


async def test_what_ends_by_a_bug_says_so_and_what_ends_with_the_ledger_does_not():
    with capture_logs() as lines:
        for fault in (KeyError("x"), LedgerFailed(LEDGER, "closed", "open it again")):
            task = tasks.start(Faulty(fault)())
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.sleep(0)
    assert [line["event"] for line in lines] == ["daemon.bug"]


async def test_a_goal_that_is_retried_while_others_are_let_go_stays(monkeypatch):
    """Which goals go was decided once, at the beginning: one retried since then was forgotten with all it had."""
    spec = SimpleNamespace(name="")
    old = {"settled": True, "updated_at": 0.0, "ended": True, "spec": spec}
    states = {g: SimpleNamespace(goal_id=g, **old) for g in ("a", "b", "c")}
    gone = []

    async def forget(goal):
        gone.append(goal)
        del states[goal]
        if "b" in states:  # a person retries it meanwhile
            states["b"] = SimpleNamespace(
                goal_id="b", settled=False, updated_at=2.0, ended=False, spec=AWAITS_C
            )

    async def shrink():
        return False

    ledger = SimpleNamespace(shrink=shrink)
    book = SimpleNamespace(states=lambda: states, purge=forget, ledger=ledger, gone={})
    daemon = SimpleNamespace(
        goals=book,
        publisher=SimpleNamespace(keeps=lambda _: False),
        places=SimpleNamespace(state=Path("/nowhere")),
    )
    await Retention(daemon, lambda _: False).expire(1.0)
    assert gone == ["a"]


AWAITS_C = SimpleNamespace(depends_on=["c"], name="")


async def test_folders_of_an_ended_goal_are_set_aside_together_before_the_first_is_removed(
    tmp_path,
):
    """A goal that was retried while its TMPDIR was being removed lost the HOME that its worker had."""
    goal = tmp_path / "goals" / "a"
    for name in ("tmp/deep", "home", ".tmp.gone"):
        (goal / name).mkdir(parents=True)
    clearing = asyncio.ensure_future(clear(SimpleNamespace(state=tmp_path), "a"))
    while (goal / "tmp").exists():  # noqa: ASYNC110 - one turn of the loop
        await asyncio.sleep(0)
    assert not (goal / "home").exists()
    for name in ("tmp", "home"):
        (goal / name).mkdir()
    await clearing
    assert sorted(path.name for path in goal.iterdir()) == ["home", "tmp"]


async def test_a_goal_opened_anew_while_its_files_are_written_is_kept(tmp_path, monkeypatch):
    """The end of the old writing let go of the new one, and nothing was published any more."""
    state = SimpleNamespace(spec=SimpleNamespace(workspace=str(tmp_path)), workspace=None)
    book = SimpleNamespace(listeners=[], cores={"a": SimpleNamespace(state=state)})
    publisher = Publisher(book)
    began, go_on = asyncio.Event(), asyncio.Event()

    async def write(*_):
        began.set()
        await go_on.wait()
        return True

    monkeypatch.setattr(publisher, "_write", write)
    publisher.open("a")
    publisher._goals["a"].is_over = True
    await began.wait()
    publisher.open("a")
    go_on.set()
    await publisher.settle("a")
    assert publisher.keeps("a")
    await publisher.stop()


async def test_a_daemon_that_is_told_to_stop_while_a_worker_crashes_waits_for_no_back_off(
    monkeypatch,
):
    """It waited out the back-off, a minute at the most, before it stopped."""
    daemon = parts()
    state = State(goal_id="a", epoch=1)
    state.goal.status = "in_progress"
    daemon.goals.cores["a"] = SimpleNamespace(state=state)
    daemon.goals.judge_by = lambda *_: None
    daemon.goals.whole = lambda _: asyncio.sleep(0)
    daemon.publisher = SimpleNamespace(open=lambda _: None)
    made = goal_run.GoalRun(daemon, "a", SimpleNamespace(), RestartHistory(), Waits(), str)

    async def work(*_):
        made.stopping = True
        return Ended("crash", "died")

    async def conclude(*_, **__):
        return 3600.0

    async def at_limit(_):
        return False

    async def entered(_):
        return SimpleNamespace(close=lambda: None, missing=lambda: None)

    monkeypatch.setattr(goal_run.schedule, "ready", lambda *_: True)
    monkeypatch.setattr(made, "_unfit", lambda _: None)
    monkeypatch.setattr(made, "_at_limit", at_limit)
    monkeypatch.setattr(made, "_enter", entered)
    monkeypatch.setattr(made, "_work", work)
    monkeypatch.setattr(made, "_conclude", conclude)
    async with asyncio.timeout(60):
        await made.task


async def test_a_person_is_told_in_words_of_a_ledger_that_cannot_be_read():
    """The connection ended without an answer, and the log had a bug of the daemon's."""

    async def status(_):
        raise LedgerCorrupt(LEDGER, "event 3 was changed", "restore a backup")

    asked = b'{"jsonrpc": "2.0", "id": 1, "method": "status", "params": {}}\n'
    answer, _ = await Control(Path("/nowhere"), {"status": status})._answer(asked)
    assert b"event 3 was changed; restore a backup" in answer


@pytest.fixture
async def rounds(monkeypatch):
    """A running scheduler of one goal that waits for tomorrow, and a line for each of its rounds."""
    monkeypatch.setattr(scheduler.schedule, "next_moment", lambda _, now: now + 86_400)
    monkeypatch.setattr(scheduler, "CLOCK_S", 0.01)
    looked = asyncio.Queue()
    daemon = parts()
    daemon.goals.ledger = SimpleNamespace(failure=None)
    made = scheduler.Scheduler(daemon, Waits(), lambda: looked.put_nowait("round") or [], str)
    task = asyncio.ensure_future(made.run())
    made.rounds = looked
    async with asyncio.timeout(60):
        yield made
    task.cancel()


async def test_a_clock_that_is_set_makes_goals_due_at_once(rounds, monkeypatch):
    await rounds.rounds.get()
    wall = time.time
    monkeypatch.setattr(scheduler.time, "time", lambda: wall() + 7_200)
    await rounds.rounds.get()


async def test_a_long_round_is_followed_by_a_rest_whatever_happens_meanwhile(rounds, monkeypatch):
    """Each of thousands of goals that came at once led to a round over all of them."""
    await rounds.rounds.get()
    rests, sleep = asyncio.Queue(), asyncio.sleep

    async def rest(seconds):
        rests.put_nowait(seconds)
        await asyncio.Event().wait()

    monkeypatch.setattr(scheduler, "LONG_S", -1.0)
    monkeypatch.setattr(scheduler.asyncio, "sleep", rest)
    rounds.wake()
    await rests.get()
    for _ in range(5):
        rounds.wake()
        await sleep(0)
    assert rounds.rounds.qsize() == 1
