"""A page of a record is the end of the whole, however it was cut."""

import random

import pytest

from clew_daemon.record import pages
from clew_daemon.record.goals import GoalStore
from clew_daemon.record.store import history_lines
from clew_shared.config.tables import Settings
from clew_shared.core.answers import ActionReport
from clew_shared.ledger import Ledger
from clew_shared.record import events as ev
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec
from clew_shared.views.publish import HistoryFold

AT = 1_790_000_000.0
DONE = ActionReport("success", "as it was", changed=True)


async def recorded(book, goal, rng):
    """Record a goal with actions that overlap, refusals, interruptions, loops, and several subtasks."""
    parts = tuple(PlannedSubtask(description=f"Part {n}") for n in range(8))
    tasks = (PlannedTask(description="All", subtasks=parts),)
    spec = Spec(description="Do")
    await book.accept(ev.GoalAccepted(at=AT, goal_id=goal, spec=spec, tasks=tasks), b"file")
    core = book.cores[goal]
    with book.entering(core):
        core.emit(ev.GoalStarted(at=AT))
        core.start(AT)
        flying = []
        for n in range(200):
            match rng.randrange(8):
                case 0 | 1 | 2:
                    said = core.propose("look", {"n": n}, AT)
                    flying += [said.seq] if said.allowed else []
                case 3 | 4 if flying:
                    core.outcome(flying.pop(rng.randrange(len(flying))), DONE, AT)
                case 5:
                    core.record("write", {"n": n}, DONE, AT)
                case 6:
                    core.record(
                        "make", {"of": n // 20}, ActionReport("failure", "no", changed=False), AT
                    )
                case 7 if not core.state.replan_required:
                    core.complete_subtask(AT, success=True, failure="")
                    core.advance(AT)
        core.interrupt("stopped", AT, counts=False)
    await book.commit(core)


@pytest.fixture
async def ledger(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger.db")
    book = GoalStore(ledger, Settings())
    book.listeners.clear()
    rng = random.Random(7)
    for goal in ("a", "b"):
        await recorded(book, goal, rng)
    yield ledger
    await ledger.close(10)


def whole(ledger, goal="a"):
    fold = HistoryFold()
    return list(history_lines(ledger, goal, fold)), fold.loops


async def test_the_last_actions_are_the_end_of_the_whole_history(ledger):
    lines, _ = whole(ledger)
    assert len(lines) > 60
    for limit in (1, 2, 7, len(lines) - 1, len(lines), len(lines) + 1):
        assert pages.actions(ledger, "a", limit) == (lines[-limit:], limit < len(lines))
    assert pages.actions(ledger, "a", None) == (lines, False)
