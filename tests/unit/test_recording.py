"""What goes wrong while one goal is recorded touches no other goal, and no other listener."""

import asyncio

import pytest
from structlog.testing import capture_logs

from clew_daemon.ledger.verify import verify
from clew_daemon.record.store import load_state
from clew_shared.core.answers import WrongState
from clew_shared.record import events as ev
from clew_shared.record.codec import dump
from clew_shared.record.daemon_events import BulletRestored
from clew_shared.record.spec import Spec


@pytest.fixture
async def goals(book):
    """Two goals, `a` and `b`."""
    for goal in "ab":
        spec = Spec(description="Do", workspace=f"/w/{goal}")
        await book.accept(ev.GoalAccepted(goal_id=goal, spec=spec, identity=(goal,)), b"")
    return book


async def goes_on(goals, goal):
    """The goal records, and what is in memory is what a replay gives."""
    core = await goals.whole(goal)
    await goals.emit(core, ev.GoalStarted())
    assert dump(core.state) == dump(load_state(goals.ledger, goal))
    assert verify(goals.ledger.path).ok


async def test_a_refused_event_takes_no_number_nor_does_what_was_to_go_with_it(goals):
    ended, own = ev.GoalEnded(status="completed"), [BulletRestored(id="x")]
    with pytest.raises(WrongState, match="the goal is queued"):
        await goals.decide(goals.cores["a"], lambda core: core.emit(ended), own)
    await goes_on(goals, "b")
    await goes_on(goals, "a")


async def test_a_listener_that_fails_hides_nothing_from_the_others(goals):
    heard, all_told = [], asyncio.Event()

    def hears(goal, records):
        heard.append((goal, records[0].seq))
        if len(heard) == 3:
            all_told.set()

    def fails(_goal, _records):
        raise ZeroDivisionError

    goals.listeners[:] = [fails, hears]
    with capture_logs() as log:
        await asyncio.gather(
            *(goals.emit(core, ev.GoalStarted()) for core in goals.cores.values()),
            goals.emit_own([BulletRestored(id="x")]),
        )
        async with asyncio.timeout(60):
            await all_told.wait()
    assert sorted(heard) == [("", 5), ("a", 3), ("b", 4)]
    assert [line["error"] for line in log] == ["ZeroDivisionError()"] * 3
