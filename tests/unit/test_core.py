"""The commands of the core: tree, actions, budgets, and what is told twice."""

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
