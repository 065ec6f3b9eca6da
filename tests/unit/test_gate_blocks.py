"""Blocks: what they belong to, how long they hold, and who lifts them."""

import pytest

from clew_shared.record import events as ev

MAKE = 'run_cmd::{"cmd":"make"}'


def blocked(agent):
    """Make `make` blocked in the present world."""
    for _ in range(3):
        answer = agent.fail("make", "no rule")
    assert answer.reason == "repetition"
    return agent


def test_a_refused_action_is_listed_and_counted(agent):
    blocked(agent)
    assert agent.state.blocked_actions == [MAKE]
    assert agent.state.loop_counts[MAKE] == 3


def test_the_next_proposal_of_it_is_a_blocked_action(agent):
    answer = blocked(agent).fail("make")
    assert (answer.reason, answer.escalated_to) == ("blocked_action", None)
    assert "no rule" in answer.message


def test_a_block_does_not_hold_in_another_world(agent):
    blocked(agent).write("a", "x")
    assert agent.fail("make", "no rule").allowed


def test_a_block_holds_again_when_its_world_returns(agent):
    blocked(agent).write("a", "x")
    assert agent.fail("make", "no rule").allowed
    agent.files.clear()
    agent.run("git checkout .", output="clean")
    assert agent.fail("make").reason == "blocked_action"


def test_a_world_that_returns_behind_the_back_is_noticed(agent):
    blocked(agent)
    agent.files["a"] = "by a person"
    assert agent.fail("make", "no rule").allowed
    del agent.files["a"]
    assert agent.fail("make").reason == "blocked_action"


def test_a_block_and_its_counts_outlive_a_restart(agent):
    blocked(agent).restart()
    assert agent.fail("make").reason == "blocked_action"
    agent.write("a", "x")
    agent.restart()
    assert agent.fail("make").allowed


def test_a_block_outlives_a_new_worker(agent):
    blocked(agent)
    agent.core.emit(ev.WorkerExited(epoch=1, reason="killed", crash=True))
    agent.core.emit(ev.WorkerStarted(epoch=2))
    assert agent.fail("make").reason == "blocked_action"


def test_a_person_lifts_a_block_and_its_counts(agent):
    blocked(agent).core.emit(ev.Unblocked(signature=MAKE))
    assert agent.state.blocked_actions == []
    assert [agent.fail("make", "no rule").allowed for _ in range(3)] == [True, True, False]


def test_feedback_lifts_the_blocks_of_the_subtask(agent):
    blocked(agent).feedback()
    assert agent.state.blocked_actions == []
    assert [agent.fail("make", "no rule").allowed for _ in range(3)] == [True, True, False]


def test_a_block_ends_with_its_subtask(played):
    agent = blocked(played(["one", "two"]))
    agent.complete()
    agent.advance()
    assert agent.state.blocked_actions == []
    assert [agent.fail("make", "no rule").allowed for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("scope", "then", "later"), [("task", False, True), ("goal", False, False)]
)
def test_the_scope_can_be_widened(played, scope, then, later):
    agent = blocked(played(["one", "two"], ["three"], scope=scope))
    agent.complete()
    agent.advance()
    assert agent.fail("make").allowed is then
    agent.complete()
    agent.advance()
    assert agent.fail("make").allowed is later


def escalate(agent):
    for _ in range(2):
        level = agent.complete(success=False, failure="no way")
    return level


def test_a_replan_inherits_counts_and_blocks(played):
    agent = blocked(played(["one", "two"]))
    agent.fail("test", "broken")
    agent.fail("test", "broken")
    assert escalate(agent) == "task"
    agent.replan("task", ["another", "and another"])
    assert agent.fail("make").reason == "blocked_action"
    assert agent.fail("test").reason == "repetition"


def test_each_subtask_of_a_replan_inherits(played):
    agent = blocked(played(["one"]))
    escalate(agent)
    agent.replan("task", ["another", "and another"])
    agent.complete()
    agent.advance()
    assert agent.fail("make").reason == "blocked_action"


def test_a_block_of_the_goal_outlives_a_replan_and_what_follows_it(played):
    agent = played(["one"], scope="goal")
    escalate(agent)
    agent.replan("task", ["another", "and another"])
    blocked(agent)
    agent.complete()
    agent.advance()
    assert agent.fail("make").reason == "blocked_action"


def test_what_a_person_let_go_on_inherits_no_lifted_block(played):
    agent = blocked(played(["one"]))
    escalate(agent)
    agent.replan("task", ["another", "and another"])
    agent.feedback()
    agent.complete()
    agent.advance()
    assert agent.fail("make", "no rule").allowed


def test_the_refusal_that_makes_a_block_does_not_count_and_the_third_later_one_escalates(agent):
    levels = [blocked(agent).fail("make").escalated_to for _ in range(1)]
    levels += [agent.fail("make").escalated_to for _ in range(2)]
    assert levels == [None, None, "task"]
    assert agent.fail("make").reason == "replan_required"


def test_blocked_proposals_of_different_actions_count_together(agent):
    for cmd in ("a", "b", "c"):
        for _ in range(3):
            agent.fail(cmd, f"{cmd} fails")
    assert agent.state.blocked_proposals == 0
    assert [agent.fail(cmd).escalated_to for cmd in ("a", "b", "c")] == [None, None, "task"]


def test_blocked_limit_can_be_set(played):
    agent = blocked(played(blocked_limit=1))
    assert agent.fail("make").escalated_to == "task"


def test_a_plain_block_holds_in_every_world(played):
    agent = blocked(played(progress_aware=False))
    agent.write("a", "x")
    assert agent.fail("make").reason == "blocked_action"


def test_a_refused_attempt_is_in_the_history_of_the_subtask(agent):
    blocked(agent).fail("make")
    assert [a.result for a in agent.state.subtask.actions] == ["failure"] * 2 + ["blocked"] * 2
