"""Which snapshots an undo lies between, and what a restore before an attempt is on record as."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew_daemon.undo.planning import Spans, UndoRefused, planned_undo
from clew_shared.record import events as ev
from clew_shared.record.fold import apply
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec
from clew_shared.record.state import State
from clew_shared.snapshots.store import SnapshotStore


def task(*subtasks):
    return PlannedTask(
        description="Kitchen", subtasks=tuple(PlannedSubtask(description=one) for one in subtasks)
    )


class Record:
    """The record of a goal with one task, which `subtasks` make up."""

    def __init__(self, *subtasks):
        self.rows = []
        accepted = ev.GoalAccepted(
            goal_id="tea", spec=Spec(description="tea"), tasks=(task(*subtasks),)
        )
        self.add(accepted, ev.GoalStarted())

    def add(self, *events):
        self.rows += enumerate(events, len(self.rows) + 1)
        return len(self.rows)

    def snapshot(self):
        return self.add(ev.SnapshotTaken(tree="t"))

    def start(self, subtask):
        return self.add(ev.SubtaskStarted(task_idx=0, subtask_idx=subtask))

    def act(self):
        """Have an action carried out; return the number of its end."""
        seq = self.add(
            ev.ActionAllowed(epoch=1, tool="run_cmd", args={}, signature=str(len(self.rows)))
        )
        return self.add(ev.ActionFinished(of=seq, result="success", outcome=""))

    def end(self, status="completed"):
        return self.add(ev.SubtaskEnded(status=status))

    def span(self, subtask):
        found = Spans(self.rows).of((0, subtask))
        return found.first, found.last


def test_a_subtask_lies_between_the_snapshots_around_its_actions():
    goal = Record("boil", "steep")
    first = goal.snapshot()
    goal.start(0)
    goal.act()
    goal.end()
    goal.start(1)
    between = goal.snapshot()
    goal.end()
    goal.add(ev.FinishRefused(failing=("hot",), resumes=True))  # it goes on
    goal.act()
    assert Spans(goal.rows).of(None).first == first
    assert goal.span(0) == (first, between)
    assert goal.span(1) == (between, None)


def restored(goal):
    """Put two files back, after an attempt with one action."""
    of = Spans(goal.rows).of_attempts((0, 0))
    goal.snapshot()
    started = goal.add(ev.UndoStarted(scope="attempt", first=of.first))
    goal.add(ev.UndoFinished(of=started, restored=2))
    goal.snapshot()


@pytest.fixture
def goal():
    """A goal whose first attempt at its first subtask has acted."""
    goal = Record("boil", "steep")
    goal.snapshot()
    goal.start(0)
    goal.act()
    return goal


def test_where_a_subtask_did_nothing_it_is_said_what_undoes_the_goal(goal):
    said = "that subtask has carried out no action; without a subtask, the whole goal is undone"
    with pytest.raises(UndoRefused, match=said):
        planned_undo(SnapshotStore(Path(), "git"), goal.rows, (0, 1))


def folded(goal):
    state = State()
    for seq, event in goal.rows:
        apply(state, event, seq)
    return state


def test_a_restore_is_not_in_force_as_an_undo_is(goal):
    restored(goal)
    assert Spans(goal.rows).undo_in_force(Spans(goal.rows).of((0, 0))) is None
    assert folded(goal).snapshots.undone == {}


@example(["goal", "subtask", 0])
@given(st.lists(st.sampled_from(["goal", "subtask"]) | st.integers(0, 3), max_size=12))
def test_in_whatever_order_undos_are_reverted_the_others_hold(order):
    """A number: of those that hold, that one is reverted."""
    goal, hold = Record("boil"), {}
    first = goal.snapshot()
    goal.start(0), goal.act()
    for what in order:
        before, scope = goal.snapshot(), what
        if isinstance(what, int):
            if what >= len(hold):
                continue
            scope, of = "undo", [*hold][what]
            del hold[of]
        else:
            hold[before], of = what, first
        started = goal.add(ev.UndoStarted(scope=scope, first=of))
        goal.add(ev.UndoFinished(of=started, restored=1))
        goal.snapshot()
    assert folded(goal).snapshots.undone == hold
    spans = Spans(goal.rows)
    for of in (spans.of(None), spans.of((0, 0))):
        found, same = spans.undo_in_force(of), [*hold.values()].count(of.scope)
        assert hold.get(found.first) == of.scope if found else not same
    goal.add(ev.SnapshotsMissing(reason="no room", removed=True))
    assert folded(goal).snapshots.undone == hold


def test_an_attempt_after_a_restore_believes_in_no_world(goal):
    goal.add(ev.WorldSeen(world="w1"), ev.AttemptEnded(attempt=1, reason="stuck"))
    began = [ev.AttemptStarted(attempt=2, reason="stuck", restored=n) for n in (0, 2)]
    worlds = []
    for event in began:
        state = folded(goal)
        apply(state, event, len(goal.rows) + 1)
        worlds.append(list(state.loops.scope.worlds))
    assert worlds == [["w1"], []]
