"""The commands of the core: tree, actions, budgets, and what is told twice."""

import pytest

from clew_shared.core.answers import ActionReport, LookFirst, WrongState
from clew_shared.core.core import IN_FLIGHT_MAX
from clew_shared.record import events as ev
from clew_shared.record.fold import fold
from clew_shared.record.snapshot import dump


def test_the_first_pending_subtask_is_in_progress_at_once(played):
    agent = played(["one", "two"])
    assert [s.status for s in agent.state.task.subtasks] == ["in_progress", "pending"]
    assert agent.state.task.status == "in_progress"


def test_a_goal_without_a_plan_bears_its_description(agent):
    assert (agent.state.task.description, agent.state.subtask.description) == ("goal", "goal")


def test_starting_twice_changes_nothing(agent):
    agent.take()
    agent.core.start(0.0)
    assert agent.core.take() == []


def test_advance_keeps_the_current_one_while_it_is_open(played):
    agent = played(["one", "two"])
    assert agent.advance()
    assert agent.state.subtask.description == "one"


def test_advance_goes_through_the_tree_in_order_and_ends(played):
    agent = played(["one", "two"], ["three"])
    seen = []
    while agent.advance():
        seen.append(agent.state.subtask.description)
        agent.complete()
    assert seen == ["one", "two", "three"]
    assert [t.status for t in agent.state.goal.tasks] == ["completed", "completed"]
    assert agent.state.goal.progress() == 0.9999  # the goal itself is not completed


def test_completing_twice_changes_nothing(played):
    agent = played(["one", "two"])
    agent.complete()
    agent.take()
    assert agent.complete() is None
    assert agent.complete(success=False, failure="x") is None
    assert agent.core.take() == []


def test_a_completed_task_is_on_record(played):
    agent = played(["one"], ["two"])
    agent.complete()
    assert [e.task_idx for _, e in agent.take() if e.kind == "task_completed"] == [0]


def test_a_plan_replaces_the_implicit_tree(agent):
    agent.replan(None, ["one", "two"])
    assert [s.description for s in agent.state.task.subtasks] == ["one", "two"]
    assert agent.state.subtask.status == "in_progress"


def test_a_goal_has_one_first_plan(agent):
    agent.replan(None, ["one"])
    with pytest.raises(WrongState, match="has a plan"):
        agent.replan(None, ["two", "three"])
    assert [s.description for s in agent.state.task.subtasks] == ["one"]


def test_a_plan_after_the_first_proposal_is_refused(agent):
    agent.read("a")
    with pytest.raises(WrongState, match="begun"):
        agent.replan(None, ["one"])


def test_a_plan_of_a_planned_goal_is_refused(played):
    with pytest.raises(WrongState, match="has a plan"):
        played(["one"]).replan(None, ["two"])


def test_an_action_without_a_started_subtask_starts_the_next(played):
    agent = played(["one", "two"])
    agent.complete()
    agent.read("a")
    assert agent.state.subtask.description == "two"
    assert agent.state.subtask.actions_total == 1


def test_an_outcome_told_twice_is_recognised(agent):
    seq = agent.core.propose("t", {}, 0.0).seq
    assert agent.core.outcome(seq, ActionReport("success", "x"), 0.0).known
    agent.take()
    assert not agent.core.outcome(seq, ActionReport("failure", "y"), 0.0).known
    assert agent.core.take() == []


def test_an_interrupted_action_is_over(agent):
    seq = agent.core.propose("t", {}, 0.0).seq
    assert agent.core.interrupt("killed", 0.0, counts=True) == [seq]
    assert agent.core.interrupt("killed", 0.0, counts=True) == []
    assert not agent.core.outcome(seq, ActionReport("success"), 0.0).known
    assert [a.result for a in agent.state.subtask.actions] == ["interrupted"]


def test_measured_changes_are_told_from_unchanged(agent):
    agent.write("a", "x")
    agent.read("a")
    assert [a.changed for a in agent.state.subtask.actions] == [True, False]


def test_a_claimed_change_is_believed(agent):
    agent.record("sync", {}, output="ok", changed=True)
    agent.record("see", {}, output="ok", changed=False)
    agent.record("say", {})
    assert [a.changed for a in agent.state.subtask.actions] == [True, False, None]


def test_a_subtask_carries_its_last_twenty_actions_and_counts_all(agent):
    for n in range(25):
        agent.read(f"{n}", f"text {n}")
    assert agent.state.subtask.actions_total == 25
    assert [a.args["path"] for a in agent.state.subtask.actions] == [f"{n}" for n in range(5, 25)]


def test_too_many_actions_in_flight_are_an_error(agent):
    for n in range(IN_FLIGHT_MAX):
        assert agent.core.propose("t", {"n": n}, 0.0).allowed
    with pytest.raises(WrongState, match="in flight"):
        agent.core.propose("t", {"n": "more"}, 0.0)


def test_max_actions_is_a_budget_and_goes_to_a_person(played):
    agent = played(max_actions=3)
    answers = [agent.read(f"{n}", f"text {n}") for n in range(5)]
    assert [a.reason for a in answers] == ["", "", "", "budget", "budget"]
    assert answers[3].escalated_to == "person"
    assert agent.state.goal.status == "blocked"
    assert agent.state.blocked_actions == []
    assert agent.state.reason.startswith("budget")


def test_a_person_grants_as_much_again(played):
    agent = played(max_actions=3)
    for n in range(4):
        agent.read(f"{n}", f"text {n}")
    agent.resume()
    assert [agent.read(f"{n}", f"text {n}").allowed for n in range(10, 14)] == [True] * 3 + [False]


@pytest.mark.parametrize(
    ("spec", "spend"),
    [
        ({"max_iterations": 2}, {}),
        ({"budget_tokens": 100}, {"tokens": 50}),
    ],
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


def test_messages_without_a_turn_count_over_all_workers_until_a_person_grants_as_many_again(agent):
    agent.core.max_messages = 5
    agent.core.emit(ev.WorkerExited(epoch=1, reason="killed", messages=3))
    agent.core.messages = 2
    assert agent.core.hold_to_limits(0.0) == ""
    agent.core.messages = 3
    assert agent.core.hold_to_limits(0.0).startswith("the limit of 5 actions is reached")
    assert agent.state.goal.status == "blocked"
    agent.core.messages = 0
    agent.resume()
    assert agent.core.hold_to_limits(0.0) == ""
    agent.core.messages = 4
    agent.reflect()
    assert agent.core.messages == 0


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


def test_a_goal_said_to_be_impossible_is_failed_with_its_task_and_subtask(agent):
    agent.core.finish_failed("no way", 0.0)
    assert (agent.state.goal.status, agent.state.task.status, agent.state.subtask.status) == (
        "failed",
        "failed",
        "failed",
    )


def test_a_refusal_by_a_rule_asks_for_a_look_first_and_records_nothing(agent):
    for _ in range(2):
        agent.fail("make")
    agent.take()
    assert agent.core.propose_unseen("run_cmd", {"cmd": "make"}, 0.0) == LookFirst()
    assert agent.core.take() == []
    assert agent.core.propose_unseen("run_cmd", {"cmd": "other"}, 0.0).allowed
    assert agent.core.propose("run_cmd", {"cmd": "make"}, 0.0).reason == "repetition"


def test_what_is_blocked_in_another_world_asks_for_a_look_first(agent):
    for _ in range(3):
        agent.fail("make")
    agent.write("a.py", "new")
    assert agent.core.propose_unseen("run_cmd", {"cmd": "make"}, 0.0) == LookFirst()
    assert agent.core.propose("run_cmd", {"cmd": "make"}, 0.0).allowed


def test_an_outcome_says_whether_the_workspace_changed(agent):
    assert agent.write("a.py", "new").heard.changed
    assert agent.read("a.py").heard.changed is False


def test_an_allowed_action_is_on_record_before_its_outcome(agent):
    agent.read("a")
    assert [e.kind for _, e in agent.take()][-2:] == ["action_allowed", "action_finished"]


def test_the_state_is_the_fold_of_what_was_recorded(played):
    agent = played(["one", "two"])
    for n in range(3):
        agent.fail("make")
        agent.write("a", str(n % 2))
        agent.think("I plan")
        agent.reflect("stuck")
    agent.complete(success=False, failure="no way")
    assert dump(fold(agent.take())) == dump(agent.state)


def test_a_wall_clock_that_was_set_spends_no_budget_of_time(played):
    agent = played(spec={"budget_wall_s": 20.0})
    agent.core.lived_s = lambda: 1.0
    agent.at = 86_400.0
    assert agent.run("true").allowed
    agent.core.lived_s = lambda: 20.0
    assert agent.run("false").reason == "budget"
