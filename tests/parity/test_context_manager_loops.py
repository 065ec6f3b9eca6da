"""What `ContextManager` promises of loops and failures, without a daemon."""

import pytest
from managed import PYTEST, WRITE, planned, published, signature

# -- loops ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [{}, {"error_msg": "1 failed"}, {"output": "1 failed"}])
@pytest.mark.parametrize("write_first", [True, False])
def test_the_second_round_of_two_actions_is_refused(ctx, told, write_first):
    planned(ctx)

    def write():
        return ctx.record_action(*WRITE)

    def run():
        return ctx.record_action(*PYTEST, **told)

    round_of = (write, run) if write_first else (run, write)
    assert [act() for act in round_of * 2] == [True, True, True, False]
    assert published("loops.json")[0]["kind"] == "alternation"


def test_reading_the_same_again_is_refused_at_the_fourth_time(ctx):
    planned(ctx)
    said = [
        ctx.record_action("read_file", {"path": "a"}, "success", output="same") for _ in range(4)
    ]
    assert said == [True, True, True, False]


def test_a_block_taken_out_by_hand_is_lifted_with_its_counts(ctx, opened):
    planned(ctx)
    for _ in range(3):
        ctx.record_action(*PYTEST)
    ctx.state.blocked_actions.clear()
    assert ctx.record_action(*PYTEST)
    assert ctx.state.loop_counts == {signature(*PYTEST): 1}
    assert opened().state.blocked_actions == []


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


def blocked(ctx, *tasks):
    found = planned(ctx, *tasks)
    ctx.mark_subtask_complete(success=False, reason="one")
    ctx.mark_subtask_complete(success=False, reason="two")
    return found
