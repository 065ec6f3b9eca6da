"""A ledger of clew 0.1.0, whose daemon was killed amid an action, is verified, folded and continued."""

import shutil
from pathlib import Path

import pytest

from clew_daemon.cli.commands.verify import check_ledger
from clew_daemon.ledger.ledger import Ledger
from clew_daemon.record.goals import GoalStore
from clew_daemon.record.pages import actions
from clew_daemon.record.store import load_state
from clew_shared.config.tables import Settings
from clew_shared.core.answers import ActionReport
from clew_shared.ledger.reader import Reader
from clew_shared.record import events as ev
from clew_shared.record.codec import STATE_VERSION, compressed, decode, dump
from clew_shared.record.fold import apply
from clew_shared.record.state import State

WRITTEN = Path(__file__).parents[1] / "fixtures" / "clew-0.1.0"
DONE, HALF = "write-greeting-ba23", "write-two-files-52d7"
AT = 1_795_400_000.0


@pytest.fixture
def state(tmp_path):
    return shutil.copytree(WRITTEN, tmp_path / "state")


@pytest.fixture
async def ledger(state):
    ledger = Ledger.open(state / "ledger.db")
    yield ledger
    await ledger.close(10)


def statuses(state):
    return [subtask.status for task in state.goal.tasks for subtask in task.subtasks]


def test_it_is_read_and_verified_as_it_is(state):
    before = (state / "ledger.db").read_bytes()
    found = check_ledger(state / "ledger.db", state)
    assert (found.ok, found.events, found.goals) == (True, 36, 2)
    with Reader.open(state / "ledger.db") as reader:
        done, half = load_state(reader, DONE), load_state(reader, HALF)
        (last,) = actions(reader, DONE, 1)[0]
    assert (done.goal.status, done.verified, done.settled) == ("completed", True, True)
    assert statuses(half) == ["completed", "in_progress", "pending"]
    assert half.in_flight[36].action.args["cmd"].startswith("test -e go")
    assert (half.actions_total, half.working, half.epoch) == (3, True, 1)
    assert (last["name"], last["output"]) == ("run_cmd", "hello\n")
    assert (state / "ledger.db").read_bytes() == before


async def test_its_goals_continue(ledger, state):
    store = GoalStore(ledger, Settings())
    store.listeners.clear()
    core = store.cores[HALF]
    with store.entering(core):
        core.interrupt("daemon_died", AT, counts=False)
        core.emit(ev.WorkerExited(at=AT, epoch=1, reason="daemon_died"))
        core.emit(ev.WorkerStarted(at=AT, epoch=2))
        core.start(AT)
        again = core.propose("run_cmd", {"cmd": "touch go"}, AT)
        core.outcome(again.seq, ActionReport("success", "", world="w"), AT)
        core.complete_subtask(AT, success=True, failure="")
        core.advance(AT)
    await store.commit(core)
    assert (again.allowed, again.seq) == (True, 40)
    assert statuses(core.state) == ["completed", "completed", "in_progress"]
    assert dump(load_state(ledger, HALF)) == dump(core.state)
    assert check_ledger(ledger.path, state).ok


async def test_a_snapshot_of_another_version_is_not_read(ledger):
    state = State()
    for row in ledger.read(HALF):
        apply(state, decode(row.body), row.seq)
    await ledger.snapshot(HALF, 30, STATE_VERSION - 1, b"another form")
    assert dump(load_state(ledger, HALF)) == dump(state)
    await ledger.snapshot(HALF, state.seq, STATE_VERSION, compressed(dump(state)))
    assert dump(load_state(ledger, HALF)) == dump(state)
    await ledger.snapshot(HALF, 30, STATE_VERSION + 1, b"of a later clew")
    assert dump(load_state(ledger, HALF)) == dump(state)
