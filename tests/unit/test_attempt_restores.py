"""A restore before an attempt is on record like an undo, and counts as none that a person has asked for."""

import pytest
from tests.unit.test_undo_scope import Record

from clew_daemon.undo.scope import Spans
from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.fold import apply
from clew_shared.record.state import State


def restored(goal):
    """Put two files back, after an attempt with one action."""
    of = Spans(goal.rows).of_attempts((0, 0))
    goal.snapshot()
    started = goal.add(snap.UndoStarted(scope="attempt", first=of.first))
    goal.add(snap.UndoFinished(of=started, restored=2))
    goal.snapshot()


@pytest.fixture
def goal():
    """A goal whose first attempt at its first subtask has acted."""
    goal = Record("boil", "steep")
    goal.snapshot()
    goal.start(0)
    goal.act()
    return goal


def folded(goal):
    state = State()
    for seq, event in goal.rows:
        apply(state, event, seq)
    return state


def test_a_restore_is_not_in_force_as_an_undo_is(goal):
    restored(goal)
    assert Spans(goal.rows).undo_in_force(Spans(goal.rows).of_subtask((0, 0))) is None
    assert folded(goal).snapshots.undone == 0


def test_a_restore_that_is_under_way_is_completed_before_anything_else(goal):
    started = goal.add(snap.UndoStarted(scope="attempt", first=2))
    assert folded(goal).snapshots.undoing == started


def test_an_attempt_after_a_restore_believes_in_no_world(goal):
    goal.add(ev.WorldSeen(world="w1"), ev.AttemptEnded(attempt=1, reason="stuck"))
    began = [ev.AttemptStarted(attempt=2, reason="stuck", restored=n) for n in (0, 2)]
    worlds = []
    for event in began:
        state = folded(goal)
        apply(state, event, len(goal.rows) + 1)
        worlds.append(list(state.scope.worlds))
    assert worlds == [["w1"], []]
