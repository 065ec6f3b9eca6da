"""A goal that is over: its outline in memory, all of it in the ledger, and nothing of it after its time."""

import pytest

from clew_daemon.cli.commands.verify import check_ledger
from clew_daemon.record.goal_status import status_view
from clew_daemon.record.store import load_state
from clew_daemon.supervision.afterwards import DAY_S, expired, kept_since
from clew_shared.core.answers import ActionReport
from clew_shared.record import events as ev
from clew_shared.record.codec import OUTLINE_VERSION, compressed, dump, load, outline
from clew_shared.record.model import Goal
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec
from clew_shared.record.state import State

AT = 1_790_000_000.0


async def ended(book, goal="a"):
    """Record a goal from its file to its report and its review."""
    spec = Spec(description="Do", notes="long " * 100, workspace=f"/w/{goal}", checks={"c": "true"})
    parts = tuple(PlannedSubtask(description=f"Part {n}") for n in range(3))
    tasks = (PlannedTask(description="All", subtasks=parts),)
    accepted = ev.GoalAccepted(at=AT, goal_id=goal, spec=spec, tasks=tasks, identity=(goal,))
    await book.accept(accepted, b"file")
    core = book.cores[goal]
    with book.entering(core):
        core.emit(ev.GoalStarted(at=AT))
        core.emit(ev.WorkerStarted(at=AT, epoch=1, agent="x", pid=1))
        core.start(AT)
        for n in range(40):
            args = {"path": f"{n}", "content": "x" * 500}
            core.record("write_file", args, ActionReport("success"), AT)
        core.emit(ev.GoalEnded(at=AT, status="failed", reason="no"))
        core.emit(ev.WorkerExited(at=AT, epoch=1, reason="finished"))
        core.emit(ev.Reported(at=AT))
        core.emit(ev.Reviewed(at=AT, of=core.state.rested_seq))
    await book.commit(core)
    return core


async def test_a_settled_goal_keeps_its_place_in_lists_and_a_tenth_of_its_size(book):
    core = await ended(book)
    view, size = status_view(core.state), len(dump(core.state))
    book.evict("a")
    assert status_view(core.state) == view
    assert round(size / len(dump(core.state))) >= 10


async def test_a_goal_that_was_set_down_is_read_again_whole(book):
    core = await ended(book)
    before = dump(core.state)
    book.evict("a")
    assert (await book.whole("a")) is core
    assert dump(core.state) == before
    again = ev.GoalRequeued(at=AT, by="retry", reopen=True, after=core.state.rested_seq)
    await book.emit(core, again)
    book.evict("a")  # it is at work again
    assert dump(core.state) == dump(load_state(book.ledger, "a"))


async def test_an_outline_that_was_changed_or_is_not_of_its_events_is_a_fault(book, ledger):
    core = await ended(book)
    book.evict("a")
    await book.stored.drain()
    state = load(dump(core.state))
    state.reason = "another"
    await ledger.snapshot("a", state.seq, OUTLINE_VERSION, compressed(dump(state)))
    assert "snapshot is not what its events give: reason" in check_ledger(ledger.path).fault.message
    kept = compressed(dump(outline(load_state(ledger, "a"))))
    await ledger.snapshot("a", state.seq, OUTLINE_VERSION, kept)
    assert check_ledger(ledger.path).ok
    with ledger._con as con:
        con.execute("UPDATE snapshots SET state = x'00' WHERE goal = 'a'")
    assert "its snapshot was changed" in check_ledger(ledger.path).fault.message


def settled(goal, at, **keys):
    state = State(goal_id=goal, goal=Goal("x", status="completed"), updated_at=at, **keys)
    state.rested_seq, state.reported_seq, state.reviewed_seq = 1, 2, 1
    return state


def test_a_goal_goes_when_its_time_is_over_and_it_was_reported_and_nobody_awaits_it():
    waiting = State(goal_id="waiting", spec=Spec(description="x", depends_on=("needed",)))
    unreported = settled("unreported", 1.0)
    unreported.reported_seq = 0
    states = [settled("old", 1.0), settled("new", 9.0), settled("needed", 1.0), unreported, waiting]
    assert expired(states, 5.0) == ["old"]


@pytest.mark.parametrize(
    ("times", "now", "lived", "since"),
    [
        (range(100), 100, 0, 10),  # it worked every day
        (range(100), 500, 0, 18),  # the clock is a year ahead, or the machine was off as long
        (range(100), 500, 95, 410),  # and this daemon has seen most of it pass
        ([*range(100), 500, 501], 101, 0, 11),  # times of a clock that is right again do not count
        (range(0, 100, 30), 100, 0, -54),  # it is used once a month: all is kept for longer
        ([], 100, 0, 10),
    ],
)
def test_a_clock_that_jumped_makes_no_goal_old(times, now, lived, since):
    days = [AT + day * DAY_S for day in times]
    found = kept_since(days, AT + now * DAY_S, 90 * DAY_S, lived * DAY_S)
    assert (found - AT) / DAY_S == pytest.approx(since)
