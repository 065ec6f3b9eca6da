"""The promises of `ContextManager` without a daemon, one test each."""

from managed import GOAL, PYTEST, WRITE, planned, published, signature

from clew_worker import Action, Subtask, Task
from clew_worker.library.context_manager import OUTPUT_BYTES, _report
from clew_worker.library.remote import RemoteGoal


def test_a_list_changed_in_place_is_saved_with_the_next_call(ctx, opened):
    task = planned(ctx)[0]
    task.status = task.subtasks[0].status = "in_progress"
    ctx.record_action(*WRITE)

    state = published("state.json")
    assert [s["description"] for s in state["goal"]["tasks"][0]["subtasks"]] == [
        "Create mathx/__init__.py",
        "Add add() function",
    ]
    assert state["goal"]["tasks"][0]["subtasks"][0]["actions"][0]["name"] == "write_file"
    assert opened().state.goal.tasks[0].subtasks[0].actions_total == 1


def test_advancing_goes_over_task_borders_to_the_end(ctx):
    tasks = planned(ctx, ("a", "b"), ("c",))
    seen = []
    while ctx.advance_to_next_subtask():
        seen.append((ctx.state.current_task_idx, ctx.state.current_subtask_idx))
        ctx.mark_subtask_complete(success=True)
    assert seen == [(0, 0), (0, 1), (1, 0)]
    assert [t.status for t in tasks] == ["completed", "completed"]
    assert ctx.state.goal.status == "completed"
    assert ctx.advance_to_next_subtask() is False


def test_opened_again_it_goes_on_exactly_where_it_was(ctx, opened):
    planned(ctx)
    ctx.mark_subtask_complete(success=True)
    ctx.advance_to_next_subtask()
    for _ in range(3):
        ctx.record_action(*PYTEST, error_msg="boom")
    ctx.mark_subtask_complete(success=False, reason="boom")
    ctx.update_probe_state({"pkg_exists": True})
    ctx.state.last_probe_state["pytest_ok"] = False
    ctx.save()

    state = opened().state
    assert (state.current_task_idx, state.current_subtask_idx) == (0, 1)
    assert [s.status for s in state.goal.tasks[0].subtasks] == ["completed", "in_progress"]
    assert (state.subtask.attempts, state.subtask.last_failure) == (1, "boom")
    assert state.loop_counts == {signature(*PYTEST): 3}
    assert state.blocked_actions == ['run_cmd::{"cmd":["pytest","-q"]}']
    assert state.last_probe_state == {"pkg_exists": True, "pytest_ok": False}
    assert len(state.subtask.actions) == 3
    assert opened("Another thing").state.loop_counts == {}


def test_the_context_shows_the_current_branch_and_nothing_else(ctx):
    planned(ctx, ("done one", "now this", "next one"), ("far away",))
    ctx.record_action("read_file", {"path": "of the done subtask"}, "success")
    ctx.mark_subtask_complete(success=True)
    ctx.advance_to_next_subtask()
    for i in range(5):
        ctx.record_action("run_cmd", {"cmd": f"step {i}"}, "error", error_msg=f"boom {i}")
    ctx.update_probe_state({"pkg_exists": True, "pytest_ok": False})
    text = ctx.get_compact_context(max_chars=2000)

    assert f"GOAL: {GOAL}" in text
    assert "CURRENT TASK: Task 1" in text
    assert "ACTIVE SUBTASK: now this" in text
    assert "NEXT: next one" in text
    assert "pkg_exists: ✓" in text
    assert "pytest_ok: ✗" in text
    assert "boom 4" in text
    assert text.count("  - run_cmd(") == text.count("→ error") == 3
    assert 'run_cmd({"cmd": "step 1"}) →' not in text
    assert "far away" not in text
    assert "of the done subtask" not in text


def test_all_finished_work_is_shown_where_there_is_room(ctx):
    planned(ctx, tuple(f"part {n}" for n in range(14)))
    ctx.record_action("write_file", {"path": "a.py"}, "success", changed=True)
    for _ in range(13):
        ctx.mark_subtask_complete(success=True)
        ctx.advance_to_next_subtask()
    assert "DONE: part 0: write_file a.py" in ctx.get_compact_context(max_chars=2000)
    assert ctx.get_compact_context(max_chars=2000).count("DONE: ") == 13
    assert "ACTIVE SUBTASK: part 13" in ctx.get_compact_context(max_chars=300)


def test_under_a_daemon_a_probe_holds_until_an_action_may_have_changed_something():
    goal = RemoteGoal(None)
    goal._stale = False
    subtask = Subtask("s")
    goal._state.goal.tasks.append(Task("t", [subtask]))
    goal.see_probes({"built": True})
    for seq, changed, holds in ((1, False, True), (2, None, False)):
        subtask.actions.append(Action("run_cmd", {}, "success", changed=changed, seq=seq))
        goal._show_probes()
        assert goal._state.holds(goal._state.probes["built"]) == holds


def test_a_block_taken_out_by_hand_is_lifted_with_its_counts(ctx, opened):
    planned(ctx)
    assert [ctx.record_action(*PYTEST) for _ in range(3)] == [True, True, False]
    assert "repetition (attempt 3): run_cmd" in ctx.get_loop_summary()
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


def test_the_second_failure_blocks_the_subtask_and_escalates(ctx):
    subtask = planned(ctx)[0].subtasks[0]
    ctx.mark_subtask_complete(success=False, reason="one")
    assert ctx.mark_subtask_complete(success=False, reason="two") == "task"
    assert (subtask.status, subtask.attempts, subtask.last_failure) == ("blocked", 2, "two")
    (loop,) = published("loops.json")
    assert (loop["kind"], loop["escalated_to"]) == ("failures", "task")
    assert not ctx.record_action(*WRITE)
    assert ctx.answer.reason == "replan_required"


def test_a_goal_is_finished_only_when_nothing_of_it_is_open(ctx):
    planned(ctx)
    ctx.mark_subtask_complete(success=True)
    assert ctx.finish("too early") is False
    assert ctx.state.goal.status == "in_progress"
    ctx.advance_to_next_subtask()
    ctx.mark_subtask_complete(success=True)
    assert ctx.finish("both are done") is True
    assert (ctx.state.goal.status, ctx.failing_checks) == ("completed", {})
    ctx.load_or_init("Another")
    assert ctx.finish("no way", success=False) is True
    assert ctx.state.goal.status == "failed"


def test_a_key_is_hidden_also_where_a_long_output_is_cut():
    key = "sk-" + "a1B2" * 12
    for before in range(OUTPUT_BYTES // 4, OUTPUT_BYTES, 1024):
        text = f"{'x' * before} {key} {'y' * OUTPUT_BYTES}"
        kept = _report("success", text, None, "").output
        assert not [at for at in range(0, len(key), 8) if key[at : at + 8] in kept]
