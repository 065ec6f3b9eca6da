"""What `ContextManager` promises of loops and failures, without a daemon."""

import pytest
from managed import PYTEST, WRITE, planned, published, signature

from clew_worker import Subtask

# -- loops ---------------------------------------------------------------------------------------------


def test_the_third_identical_action_is_refused_and_blocked(ctx):
    planned(ctx)
    assert [ctx.record_action(*PYTEST) for _ in range(4)] == [True, True, False, False]
    name = signature(*PYTEST)
    assert ctx.state.blocked_actions == [name]
    assert ctx.state.loop_counts[name] == 3
    assert published("state.json")["blocked_actions"] == [name]
    (loop,) = published("loops.json")
    assert (loop["kind"], loop["action_signature"]) == ("repetition", name)
    assert (loop["attempt_count"], loop["task_idx"], loop["subtask_idx"]) == (3, 0, 0)
    assert "blocked (repetition)" in ctx.answer.message


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


def test_without_tasks_a_stubborn_agent_is_refused_nothing_but_what_is_blocked(ctx):
    for action in (PYTEST, WRITE) * 8:
        ctx.record_action(*action)
    assert not ctx.record_action(*PYTEST)
    assert ctx.record_action("read_file", {"path": "a"}, "success")


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


def test_a_block_put_in_by_hand_holds(ctx, opened):
    planned(ctx)
    ctx.state.blocked_actions.add(signature(*WRITE))
    assert not ctx.record_action(*WRITE)
    assert not opened().record_action(*WRITE)


def test_a_loop_summary_names_what_was_found(ctx):
    planned(ctx)
    assert ctx.get_loop_summary() == "No loops detected."
    for _ in range(3):
        ctx.record_action(*PYTEST)
    assert f"repetition (attempt 3): {signature(*PYTEST)}" in ctx.get_loop_summary()


# -- failures ------------------------------------------------------------------------------------------


def test_the_first_failure_leaves_the_subtask_in_progress(ctx):
    subtask = planned(ctx)[0].subtasks[0]
    assert ctx.mark_subtask_complete(success=False, reason="ImportError") is None
    assert (subtask.status, subtask.attempts) == ("in_progress", 1)
    assert subtask.last_failure == "ImportError"
    assert ctx.record_action(*WRITE)
    assert "Last failure: ImportError" in ctx.get_compact_context()


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


def test_advancing_leaves_a_blocked_subtask_behind(ctx):
    tasks = blocked(ctx)
    assert ctx.advance_to_next_subtask() is True
    assert ctx.state.current_subtask_idx == 1
    assert ctx.record_action(*WRITE)
    assert tasks[0].subtasks[0].status == "blocked"
    ctx.mark_subtask_complete(success=True)
    assert ctx.advance_to_next_subtask() is False
    assert ctx.state.goal.status == "in_progress"


def test_another_way_put_into_the_tree_is_a_replan_and_inherits_the_blocks(ctx):
    planned(ctx, ("a",))
    for _ in range(3):
        ctx.record_action(*PYTEST)
    task = blocked(ctx)[0]
    task.subtasks[0] = Subtask("another way")
    assert ctx.record_action(*WRITE)
    assert task.subtasks[0].status == "in_progress"
    assert not ctx.record_action(*PYTEST)


def test_what_a_replan_by_hand_removes_leaves_the_trace_that_a_replan_under_the_daemon_leaves(ctx):
    task = blocked(ctx, ("a", "b"))[0]
    reason = task.subtasks[0].last_failure
    task.subtasks[:] = [Subtask("another way")]
    assert ctx.record_action(*WRITE)
    state = ctx.state._state
    assert state.set_aside == [f"a (blocked: {reason})"]
    assert state.covered == ["b"]
    assert f"GIVEN UP: a (blocked: {reason})" in ctx.get_compact_context()


def given_up(ctx):
    return [line for line in ctx.get_compact_context().splitlines() if "GIVEN UP" in line]


def test_a_subtask_that_a_replan_removes_leaves_a_line_that_outlives_the_program(ctx, opened):
    task = blocked(ctx, ("a", "b"))[0]
    task.subtasks[:] = [Subtask("another way")]
    assert ctx.record_action(*WRITE)
    assert given_up(ctx) == ["GIVEN UP: a (blocked: two)"]
    ctx.close()
    assert given_up(opened()) == ["GIVEN UP: a (blocked: two)"]


def test_beside_a_blocked_action_stands_what_to_do(ctx):
    planned(ctx)
    for _ in range(3):
        ctx.record_action(*PYTEST)
    advice = "⚠ Action blocked due to loops. Try different approach."
    assert f"BLOCKED: {signature(*PYTEST)}\n{advice}" in ctx.get_compact_context()
    ctx.record_action("write_file", {"path": "a"}, "success", changed=True)
    assert advice not in ctx.get_compact_context()


def test_replans_that_fail_go_up_to_the_goal_and_to_a_person(ctx):
    task = blocked(ctx, ("a",))[0]
    levels = []
    for i in range(2):
        task.subtasks.append(Subtask(f"way {i}"))
        levels += [ctx.mark_subtask_complete(success=False, reason="no") for _ in range(2)]
    assert levels == [None, "task", None, "goal"]
