"""The commands of the core: budgets, what is told twice, and who must find another way: task, goal, person."""

import pytest

from clew_shared.core.answers import ActionReport, WrongState
from clew_shared.record import events as ev


def test_a_goal_has_one_first_plan(agent):
    agent.replan(None, ["one"])
    with pytest.raises(WrongState, match="has a plan"):
        agent.replan(None, ["two", "three"])
    assert [s.description for s in agent.state.task.subtasks] == ["one"]


def test_an_outcome_told_twice_is_recognised(agent):
    seq = agent.core.propose("t", {}, 0.0).seq
    assert agent.core.outcome(seq, ActionReport("success", "x"), 0.0).known
    agent.take()
    assert not agent.core.outcome(seq, ActionReport("failure", "y"), 0.0).known
    assert agent.core.take() == []


@pytest.mark.parametrize(
    ("spec", "spend"), [({"max_iterations": 2}, {}), ({"budget_tokens": 100}, {"tokens": 50})]
)
def test_turns_and_tokens_are_budgets_and_end_with_the_turn_that_uses_them_up(played, spec, spend):
    agent = played(spec=spec)
    for n in range(2):
        assert agent.read(f"{n}", f"text {n}").allowed
        assert agent.state.goal.status == "in_progress"
        heard = agent.core.reflect(ev.Reflected(iteration=0, **spend))
    assert heard.escalated_to == "person"
    assert agent.state.goal.status == "blocked"
    assert agent.read("more").reason == "budget"


def test_working_time_is_a_budget_and_rest_does_not_count(played):
    agent = played(spec={"budget_wall_s": 10.0})
    agent.at = 9.0
    assert agent.read("a").allowed
    agent.core.emit(ev.WorkerExited(epoch=1, reason="stopped", active_s=9.0))
    agent.core.emit(ev.WorkerStarted(epoch=2, at=1000.0))
    agent.at = 1000.5
    assert agent.read("b").allowed
    agent.at = 1001.5
    assert agent.read("c").reason == "budget"


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_goal_that_is_over_allows_nothing(agent, status):
    agent.core.emit(ev.GoalEnded(status=status))
    assert agent.read("a").reason == "stopped"
    assert agent.record("a", {}).reason == "stopped"


def block(agent):
    """Let the current subtask fail until it is blocked; give the level escalated to."""
    for _ in range(agent.core.loops.failure_limit):
        level = agent.complete(success=False, failure="no way")
    return level


def test_the_whole_way_from_subtask_to_person(played):
    agent = played(["one"], ["later"])
    levels = []
    while agent.state.goal.status == "in_progress":
        levels.append(block(agent))
        if levels[-1] != "person":
            agent.replan(levels[-1], ["another way"])
    of_a_task = ["task", "task", "goal"]
    assert levels == [*of_a_task, "task", "task", "goal", "person"]
    assert agent.state.goal.status == "blocked"
    assert "another way" in agent.state.question


def test_a_replan_of_the_task_replaces_the_blocked_and_the_pending_that_it_covers(played):
    agent = played(["done", "blocked", "pending"], ["other task"])
    agent.complete()
    agent.advance()
    block(agent)
    agent.replan("task", ["x", "y"], covers="all")
    assert tree(agent) == [["done", "x", "y"], ["other task"]]
    assert [str(s.status) for s in agent.state.task.subtasks] == [
        "completed",
        "in_progress",
        "pending",
    ]
    assert agent.state.plan.set_aside == ["blocked (blocked: no way)"]
    assert agent.state.plan.covered == ["pending"]


@pytest.mark.parametrize("method", ["complete", "advance"])
def test_nothing_else_goes_on_before_the_replan(agent, method):
    block(agent)
    with pytest.raises(WrongState, match="replan"):
        getattr(agent, method)()


def test_proposals_before_the_replan_are_refused_and_not_counted(agent):
    block(agent)
    answers = [agent.read("a") for _ in range(10)] + [agent.record("x", {}) for _ in range(10)]
    assert {a.reason for a in answers} == {"replan_required"}
    assert {a.escalated_to for a in answers} == {None}
    assert agent.state.blocked_actions == []


def test_a_person_is_waited_for(played):
    agent = played(["one"], failure_limit=1, replan_limit=1)
    for level in ("task", "goal"):
        block(agent)
        agent.replan(level, ["x"])
    block(agent)
    with pytest.raises(WrongState, match="person"):
        agent.replan("goal", ["y"])
    with pytest.raises(WrongState, match="person"):
        agent.advance()
    assert agent.read("a").reason == "replan_required"


def tree(agent):
    return [[s.description for s in t.subtasks] for t in agent.state.goal.tasks]


@pytest.fixture
def blocked(played):
    """An agent whose second of four subtasks is blocked, with another task after it."""
    agent = played(["done", "stuck", "third", "fourth"], ["later"])
    agent.complete()
    agent.advance()
    block(agent)
    return agent


def test_what_the_plan_does_not_name_is_still_to_do_after_it(blocked):
    blocked.replan("task", ["another way"])
    assert tree(blocked) == [["done", "another way", "third", "fourth"], ["later"]]
    assert blocked.state.open_subtasks() == ["another way", "third", "fourth", "later"]
    assert blocked.state.plan.set_aside == ["stuck (blocked: no way)"]
    assert blocked.state.plan.covered == []


def test_what_the_plan_names_again_is_continued_in_its_place_and_not_done_twice(blocked):
    blocked.replan("task", [" Fourth ", "another way"])
    assert tree(blocked) == [["done", "fourth", "another way", "third"], ["later"]]
