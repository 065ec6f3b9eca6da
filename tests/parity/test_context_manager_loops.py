"""What `ContextManager` promises of loops and failures, without a daemon."""

from managed import PYTEST, WRITE, planned, published, signature

# -- loops ---------------------------------------------------------------------------------------------


def test_a_block_taken_out_by_hand_is_lifted_with_its_counts(ctx, opened):
    planned(ctx)
    for _ in range(3):
        ctx.record_action(*PYTEST)
    ctx.state.blocked_actions.clear()
    assert ctx.record_action(*PYTEST)
    assert ctx.state.loop_counts == {signature(*PYTEST): 1}
    assert opened().state.blocked_actions == []


def test_blocked_actions_can_be_used_as_the_set_that_seed_000_calls_them(ctx, opened):
    planned(ctx)
    ctx.state.blocked_actions.add(signature(*PYTEST))
    ctx.state.blocked_actions.add(signature(*PYTEST))
    assert not ctx.record_action(*PYTEST)
    assert ctx.answer["reason"] == ctx.answer.reason == "blocked_action"
    assert opened().state.blocked_actions == [signature(*PYTEST)]
    ctx.state.blocked_actions.discard(signature(*PYTEST))
    assert ctx.record_action(*PYTEST)


# -- failures ------------------------------------------------------------------------------------------


def test_the_second_failure_blocks_the_subtask_and_escalates(ctx):
    subtask = planned(ctx)[0].subtasks[0]
    ctx.mark_subtask_complete(success=False, reason="one")
    assert ctx.mark_subtask_complete(success=False, reason="two") == "task"
    assert (subtask.status, subtask.attempts, subtask.last_failure) == ("blocked", 2, "two")
    (loop,) = published("loops.json")
    assert (loop["kind"], loop["escalated_to"]) == ("failures", "task")
    assert not ctx.record_action(*WRITE)
    assert ctx.answer.reason == "replan_required"
