"""State is a fold of events: every kind has its place, and a state can be put away and taken up."""

import pytest

from clew_shared.core import suggestions
from clew_shared.record import events as ev
from clew_shared.record.codec import GOAL_EVENTS, decode, encode
from clew_shared.record.fold import apply, fold
from clew_shared.record.identity import Identity
from clew_shared.record.scope import STEPS_KEPT
from clew_shared.record.snapshot import dump, load
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
    rows = [
        (1, ev.GoalAccepted(goal_id="g", spec=Spec(description="d"))),
        (2, ev.GoalStarted()),
        (3, ev.SubtaskStarted(task_idx=0, subtask_idx=0)),
    ]
    return fold(rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", [State, begun])
def test_every_event_can_be_taken_in_any_state(kind, state):
    taken = apply(state(), example(kind), 9)
    assert (taken.seq, taken.updated_at) == (9, 5.0)
    assert load(dump(taken)) == taken


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_comes_back_from_the_ledger_as_it_went(kind):
    assert decode(encode(example(kind))) == example(kind)


@pytest.mark.parametrize("replan", ["task", "goal"])
def test_a_replan_can_be_taken_in_any_state(replan):
    event = example("planned").model_copy(update={"replan": replan})
    for state in (State(), begun()):
        assert apply(state, event, 9).goal.tasks


def test_an_event_of_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="unknown kind"):
        decode(b'{"kind":"made_up"}')


def test_a_field_that_came_later_is_no_obstacle():
    event = decode(b'{"kind":"goal_started","at":1,"from_the_future":2}')
    assert event == ev.GoalStarted(at=1)


def test_outcomes_of_unknown_actions_change_nothing_but_the_number():
    state = begun()
    before = dump(state)
    for kind in ("action_finished", "action_interrupted"):
        apply(state, example(kind).model_copy(update={"of": 77, "at": 0.0}), 3)
    assert dump(state) == before


def test_a_state_goes_on_after_a_restart_as_if_nothing_had_been(played):
    one, two = played(["a", "b"]), played(["a", "b"])
    for agent in (one, two):
        for n in range(4):
            agent.fail("make")
            agent.write("f", str(n % 2))
            agent.think("I plan")
            if agent is two:
                agent.restart()
    assert dump(one.state) == dump(two.state)


def test_what_is_kept_of_steps_is_bounded(agent):
    for n in range(50):
        agent.read(str(n), f"text {n}")
    assert len(agent.state.scope.steps) == STEPS_KEPT


def test_a_completed_goal_leaves_nothing_open(played):
    agent = played(["one", "two"], ["three"])
    agent.core.emit(ev.GoalEnded(status="completed"))
    statuses = [s.status for t in agent.state.goal.tasks for s in t.subtasks]
    assert statuses == ["completed", "skipped", "skipped"]
    assert agent.state.goal.progress() == 1.0


def test_what_a_plan_says_is_done_is_done():
    done = PlannedSubtask(description="s", done=True)
    task = PlannedTask(description="t", subtasks=(done, done))
    state = fold([(1, ev.GoalAccepted(goal_id="g", spec=Spec(description="d"), tasks=(task,)))])
    assert state.goal.tasks[0].status == "completed"
    assert state.next_pending() is None


def test_a_workers_end_is_no_longer_its_pid_and_is_charged(agent):
    agent.core.emit(ev.WorkerStarted(epoch=2, pid=7))
    assert (agent.state.epoch, agent.state.pid) == (2, 7)
    agent.core.emit(ev.WorkerExited(epoch=2, reason="killed", active_s=1.5))
    assert (agent.state.pid, agent.state.cost.active_s) == (None, 1.5)


def test_restarts_count_the_deaths_of_the_worker_and_nothing_else(agent):
    ends = ("stopped", "daemon_died", "busy", "finished", "exit 137", "hung", "stopped")
    for epoch, reason in enumerate(ends, start=2):
        agent.core.emit(ev.WorkerStarted(epoch=epoch))
        died = reason in ("exit 137", "hung")
        agent.core.emit(ev.WorkerExited(epoch=epoch, reason=reason, crash=died))
    agent.core.emit(ev.GoalWaiting(reason="paused", paused=True))
    agent.resume()
    assert (agent.state.epoch, agent.state.restarts) == (len(ends) + 1, 2)


def test_a_goal_waits_since_it_was_paused_and_not_since_it_waited_for_an_endpoint(agent):
    for at, paused in ((1.0, False), (2.0, False), (5.0, True), (6.0, True), (8.0, False)):
        agent.core.emit(ev.GoalWaiting(at=at, reason="x", paused=paused))
        since = {1.0: 1.0, 2.0: 1.0, 5.0: 5.0, 6.0: 5.0, 8.0: 8.0}[at]
        assert agent.state.waiting_since == since


def suggest(agent, *checks):
    plan = (PlannedTask(description="t", subtasks=(PlannedSubtask(description="s"),)),)
    agent.core.plan(plan, None, 1.0, checks)
    return [row.event for row in agent.core.take() if row.event.kind == "check_proposed"]


def test_a_suggested_check_decides_nothing_and_is_kept_with_its_result(agent):
    suggest(agent, ("tests", "pytest -q"), ("lint", "ruff check"))
    agent.core.emit(ev.CheckStarted(name="tests"))
    agent.core.emit(ev.CheckFinished(name="tests", passed=True, suggested=True))
    assert suggestions.due(agent.state) == [("lint", "ruff check")]
    assert (agent.state.checks, agent.state.last_probe_state) == ({}, {})
    agent.core.emit(ev.GoalEnded(status="completed"))
    assert agent.state.verified is False
    assert agent.state.suggested["tests"].result.passed


def test_a_suggested_check_that_was_interrupted_is_not_run_again_until_a_person_speaks(agent):
    suggest(agent, ("tests", "pytest -q"))
    agent.core.emit(ev.CheckStarted(name="tests"))
    agent.restart()
    assert suggestions.due(agent.state) == []
    agent.feedback()
    assert suggestions.due(agent.state) == [("tests", "pytest -q")]


def test_a_goal_with_checks_records_suggestions_and_runs_none(played):
    agent = played(spec={"checks": {"own": "true"}})
    taken = suggest(agent, ("own", "false"), ("same", "true"), ("other", "test -f x"))
    assert [event.name for event in taken] == ["other"]
    assert suggestions.due(agent.state) == []


def test_at_most_five_suggestions_are_kept_and_each_command_once(agent):
    checks = [(f"c{n // 2}", f"true {n // 2}") for n in range(20)]
    assert [e.name for e in suggest(agent, *checks)] == ["c0", "c1", "c2", "c3", "c4"]
    assert len(agent.state.suggested) == suggestions.SUGGESTED_MAX


def test_a_persons_edit_of_the_blocked_actions_is_taken(agent):
    tree = {"description": "goal", "status": "in_progress", "tasks": []}
    agent.core.emit(ev.TreeEdited(goal=tree, blocked_actions=("x::{}",), loop_counts={"x::{}": 3}))
    assert agent.state.blocked_actions == ["x::{}"]
    assert agent.state.loop_counts == {"x::{}": 3}
    assert agent.act("x", {}).reason == "blocked_action"


def test_a_turn_that_tells_of_no_llm_call_is_not_counted_as_one():
    state = fold([(1, ev.Reflected(iteration=1)), (2, ev.Reflected(iteration=2, tokens=7))])
    assert (state.iteration, state.cost.calls, state.cost.tokens) == (2, 1, 7)


def test_a_turn_that_a_crash_cut_off_costs_but_is_no_iteration():
    spent = {"tokens": 7, "assessment": "stuck", "unfinished": True}
    state = fold([(1, ev.Reflected(iteration=1)), (2, ev.Reflected(iteration=0, **spent))])
    assert (state.iteration, state.cost.calls, state.cost.tokens) == (1, 1, 7)
    assert (state.attention.iterations_without_facts, state.attention.stuck) == (1, 0)


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


def test_a_goal_that_worked_before_workspaces_were_known_makes_none_by_itself():
    state = State(goal_id="g")
    apply(state, ev.WorkerStarted(epoch=1), 1)
    assert not state.may_make


def plan_of(*tasks):
    return tuple(
        PlannedTask(
            description=name, subtasks=tuple(PlannedSubtask(description=s) for s in subtasks)
        )
        for name, *subtasks in tasks
    )


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
    assert (list(state.checks), state.goal.description) == (["x"], "new")

    apply(state, ev.GoalEdited(spec=new, tasks=plan_of(("D", "d1"))), 10)
    assert state.subtask is None  # the next one in line is begun
    assert state.next_pending() == (1, 0)
    assert load(dump(state)) == state
