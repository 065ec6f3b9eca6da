"""State is a fold of events: every kind has its place, and a state can be put away and taken up."""

import pytest

from clew_shared.record import events as ev
from clew_shared.record.codec import GOAL_EVENTS, decode, dump, encode, load
from clew_shared.record.fold import apply, fold
from clew_shared.record.identity import Identity
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec
from clew_shared.record.state import State

KINDS = {model.kind: model for model in GOAL_EVENTS}

REQUIRED = {
    "goal_id": "g", "spec": Spec(description="d"), "status": "completed", "epoch": 1, "tool": "t",
    "args": {}, "signature": "t::{}", "reason": "r", "message": "m", "of": 1, "result": "success",
    "outcome": "success:", "world": "w", "loop": "cycle", "intervention": "theme", "text": "x",
    "theme": "general", "has_tool_calls": False, "iteration": 1, "probes": {"p": True}, "name": "c",
    "passed": True, "task_idx": 0, "subtask_idx": 0, "to": "task", "cmd": "true",
    "tasks": (PlannedTask(description="t", subtasks=(PlannedSubtask(description="s"),)),),
    "goal": {"description": "edited", "tasks": []}, "ids": ("tes-00001",),
    "attempt": 2, "identity": Identity(dev=1, ino=2), "tree": "4b825d", "scope": "goal", "first": 3,
    "label": "proven",
}  # fmt: skip


def example(kind):
    model = KINDS[kind]
    needed = [name for name, field in model.model_fields.items() if field.is_required()]
    values = {name: REQUIRED.get(name, ()) for name in needed if name != "kind"}  # else a tuple
    return model(**values, at=5.0)


def begun():
    accepted = ev.GoalAccepted(goal_id="g", spec=Spec(description="d"))
    return fold([(1, accepted), (2, ev.GoalStarted()), (3, example("subtask_started"))])


@pytest.mark.parametrize("state", [State, begun])
def test_every_event_can_be_taken_in_any_state(state):
    for kind in KINDS:
        taken = apply(state(), example(kind), 9)
        assert (kind, taken.seq, taken.updated_at) == (kind, 9, 5.0)
        assert load(dump(taken)) == taken, kind


def test_every_event_comes_back_from_the_ledger_as_it_went():
    assert [kind for kind in KINDS if decode(encode(example(kind))) != example(kind)] == []


def test_a_persons_word_lifts_the_blocks_of_a_goal_that_was_only_paused():
    state = State(goal_id="g")
    for lifts, left in ((False, {"a": {"w": "crash"}}), (True, {})):
        state.loops.scope.blocks = {"a": {"w": "crash"}}
        apply(state, ev.GoalRequeued(by="continue", lifts=lifts), state.seq + 1)
        assert state.loops.scope.blocks == left


def test_an_empty_workspace_may_be_made_at_the_first_start_and_at_a_persons_word_only():
    state = State(goal_id="g")
    known = ev.WorkspaceKnown(identity=Identity(dev=1, ino=2))
    gone = ev.GoalBlocked(reason="gone", gone=True)

    def after(*events):
        for event in events:
            apply(state, event, state.seq + 1)
        return state.may_make

    assert state.may_make
    assert not after(known)
    assert not after(ev.GoalBlocked(reason="stuck"), ev.GoalRequeued(by="resume"))
    assert not after(gone, ev.GoalRequeued(by="retry"))
    assert not after(gone, ev.GoalRequeued(by="resume"))  # it was put back
    assert after(gone, ev.GoalRequeued(by="resume", make=True))
    assert after(ev.GoalBlocked(reason="no model"), ev.GoalRequeued(by="retry"))  # still so
    assert not after(known)


def plan_of(*tasks):
    steps = {name: tuple(PlannedSubtask(description=s) for s in own) for name, *own in tasks}
    return tuple(PlannedTask(description=name, subtasks=own) for name, own in steps.items())


def test_an_edited_plan_keeps_what_is_done_and_the_record_of_what_stays():
    old = plan_of(("A", "a1", "a2"), ("B", "b1", "b2"))
    spec = Spec(description="d", checks={"x": "true", "y": "true"})
    state = fold([
        (1, ev.GoalAccepted(goal_id="g", spec=spec, tasks=old)),
        (2, ev.SubtaskStarted(task_idx=0, subtask_idx=0)),
        (3, ev.SubtaskEnded(status="completed")),
        (4, ev.SubtaskStarted(task_idx=0, subtask_idx=1)),
        (5, ev.SubtaskFailed(failure="no")),
        (6, ev.CheckFinished(name="x", passed=True)),
        (7, ev.CheckFinished(name="y", passed=True)),
        (8, ev.GoalBlocked(reason="r")),
    ])  # fmt: skip
    new = Spec(description="new", checks={"x": "true", "y": "false"})
    changed = plan_of(("B", "b2", "b3"), ("C", "a2"))
    apply(state, ev.GoalEdited(spec=new, tasks=changed), 9)
    tree = [(t.description, [s.description for s in t.subtasks]) for t in state.goal.tasks]
    assert tree == [("A", ["a1"]), ("B", ["b2", "b3"]), ("C", ["a2"])]
    assert [str(t.status) for t in state.goal.tasks] == ["completed", "pending", "in_progress"]
    assert (state.subtask.description, state.subtask.attempts) == ("a2", 1)
    assert state.replaced == ["b1 (not tried: another plan covers it)"]
    assert (list(state.proofs.checks), state.goal.description) == (["x"], "new")

    apply(state, ev.GoalEdited(spec=new, tasks=plan_of(("D", "d1"))), 10)
    assert state.subtask is None  # the next one in line is begun
    assert state.next_pending() == (1, 0)
    assert load(dump(state)) == state
