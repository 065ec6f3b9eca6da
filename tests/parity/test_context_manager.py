"""The promises of `ContextManager` without a daemon, one test each."""

from pathlib import Path

import pytest
from managed import GOAL, PYTEST, WRITE, planned, published, signature

from clew_shared.record.codec import decode
from clew_shared.record.fold import fold
from clew_shared.record.snapshot import dump
from clew_worker import ContextManager, LedgerError, Subtask, Task, WrongState

# -- the tree ------------------------------------------------------------------------------------------


def test_a_new_goal_has_no_tasks_until_the_agent_brings_them(ctx):
    assert ctx.state.goal.description == GOAL
    assert ctx.state.goal.status == "in_progress"
    assert ctx.state.goal.tasks == []
    assert published("state.json")["goal"]["tasks"] == []


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


def test_saving_by_the_name_of_the_first_design_works(ctx, opened):
    planned(ctx)
    ctx._save_state()
    assert len(opened().state.goal.tasks[0].subtasks) == 2


def test_the_agents_own_objects_show_what_came_of_them(ctx):
    task = planned(ctx)[0]
    ctx.record_action(*WRITE)
    ctx.mark_subtask_complete(success=True)
    assert task.subtasks[0].status == "completed"
    assert task.subtasks[0].actions[0].result == "success"


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


def test_the_subtask_pointed_to_by_hand_is_worked_on(ctx):
    tasks = planned(ctx)
    ctx.state.current_subtask_idx = 1
    ctx.record_action(*WRITE)
    assert tasks[0].subtasks[1].actions_total == 1
    assert tasks[0].subtasks[1].status == "in_progress"


def test_a_completed_goal_goes_on_when_work_is_added(ctx):
    planned(ctx, ("a",))
    ctx.mark_subtask_complete(success=True)
    ctx.advance_to_next_subtask()
    ctx.state.goal.tasks.append(Task("More", [Subtask("b")]))
    assert ctx.advance_to_next_subtask() is True
    assert ctx.record_action(*WRITE)
    assert ctx.state.goal.status == "in_progress"


def test_a_status_that_is_none_is_refused_by_name(ctx):
    planned(ctx)[0].subtasks[0].status = "done"
    with pytest.raises(ValueError, match=r"'Create mathx/__init__\.py': status 'done'"):
        ctx.record_action(*WRITE)


def test_actions_without_tasks_are_kept_under_the_goals_own_description(ctx):
    ctx.record_action(*WRITE)
    assert ctx.state.goal.tasks[0].subtasks[0].description == GOAL
    assert "write_file" in ctx.get_compact_context()


# -- opening again -------------------------------------------------------------------------------------


def test_opened_again_it_goes_on_exactly_where_it_was(ctx, opened):
    planned(ctx)
    ctx.mark_subtask_complete(success=True)
    ctx.advance_to_next_subtask()
    for _ in range(3):
        ctx.record_action(*PYTEST, error_msg="boom")
    ctx.mark_subtask_complete(success=False, reason="boom")
    ctx.update_probe_state({"pkg_exists": True, "pytest_ok": False})

    state = opened().state
    assert (state.current_task_idx, state.current_subtask_idx) == (0, 1)
    assert [s.status for s in state.goal.tasks[0].subtasks] == ["completed", "in_progress"]
    assert (state.subtask.attempts, state.subtask.last_failure) == (1, "boom")
    assert state.loop_counts == {signature(*PYTEST): 3}
    assert state.blocked_actions == [signature(*PYTEST)]
    assert state.last_probe_state == {"pkg_exists": True, "pytest_ok": False}
    assert len(state.subtask.actions) == 3


def test_counts_go_on_across_openings(opened):
    for expected in (True, True, False):
        assert opened().record_action(*PYTEST) is expected


def test_torn_published_files_do_not_matter_and_are_made_anew(ctx, opened):
    planned(ctx)
    for _ in range(3):
        ctx.record_action(*PYTEST)
    history = published("history.jsonl")
    ctx.close()
    Path(".agent_context/state.json").write_text('{"goal": {"descr')
    Path(".agent_context/history.jsonl").write_bytes(b"\x00\xff garbage")
    Path(".agent_context/loops.json").unlink()

    again = opened()
    assert again.state.blocked_actions == [signature(*PYTEST)]
    assert published("state.json")["goal"]["description"] == GOAL
    assert published("history.jsonl") == history
    assert len(published("loops.json")) == 1


def test_another_goal_starts_fresh_and_the_old_one_stays_readable(ctx, opened):
    planned(ctx)
    for _ in range(3):
        ctx.record_action(*PYTEST)
    other = opened("Another goal")
    assert (other.state.goal.tasks, other.state.loop_counts) == ([], {})
    assert other.state.blocked_actions == []
    assert published("history.jsonl") == []
    assert other.record_action(*PYTEST)

    old = opened(GOAL)
    assert old.state.blocked_actions == [signature(*PYTEST)]
    assert [a["name"] for a in published("history.jsonl")] == ["run_cmd"] * 3


def test_two_managers_of_one_goal_take_turns(ctx, opened):
    planned(ctx)
    other = opened()
    said = [m.record_action(*PYTEST) for m in (ctx, other, ctx, other)]
    assert said == [True, True, False, False]
    other.save()
    assert len(published("history.jsonl")) == 4


def test_a_damaged_ledger_is_an_error_and_stays_as_it_is(ctx):
    ctx.record_action(*WRITE)
    ctx.close()
    path = Path(".agent_context/ledger.db")
    path.write_bytes(b"garbage" * 1000)
    with pytest.raises(LedgerError, match=r"ledger\.db: damaged"):
        ContextManager().load_or_init(GOAL)
    assert path.read_bytes() == b"garbage" * 1000


def test_a_folder_of_links_is_not_written_through(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (folder / ".agent_context").symlink_to(elsewhere)
    with pytest.raises(NotADirectoryError, match="is a link"):
        ContextManager().load_or_init(GOAL)
    assert list(elsewhere.iterdir()) == []


# -- propose and outcome -------------------------------------------------------------------------------


def test_a_proposal_is_judged_before_it_is_carried_out(ctx):
    planned(ctx)
    for _ in range(2):
        answer = ctx.propose("run_cmd", {"cmd": "make"})
        assert answer
        assert answer.verdict == answer["verdict"] == "allowed"
        ctx.outcome(answer.seq, "failure", output="no rule to make target")
    refused = ctx.propose("run_cmd", {"cmd": "make"})
    assert not refused
    assert refused.reason == "repetition"
    assert "no rule to make target" in refused.message


def test_an_outcome_told_twice_counts_once(ctx):
    planned(ctx)
    answer = ctx.propose("run_cmd", {"cmd": "make"})
    ctx.outcome(answer, "success")
    ctx.outcome(answer, "success")
    assert len(published("history.jsonl")) == 1


def test_an_outcome_of_nothing_that_was_allowed_is_an_error(ctx):
    planned(ctx)
    with pytest.raises(WrongState, match="no action 999"):
        ctx.outcome(999, "success")


def test_what_was_in_flight_at_a_crash_is_interrupted_and_refused_after_two(opened):
    for _ in range(2):
        ctx = opened()
        assert ctx.propose("run_cmd", {"cmd": "eat all memory"})
        assert ctx.propose("run_cmd", {"cmd": f"other {ctx.state.epoch}"})
    ctx = opened()
    assert [a["result"] for a in published("history.jsonl")] == ["interrupted"] * 4
    refused = ctx.propose("run_cmd", {"cmd": "eat all memory"})
    assert (refused.allowed, refused.reason) == (False, "crash")


# -- what is shown -------------------------------------------------------------------------------------


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


def test_history_has_each_action_once_in_order_with_its_output(ctx, opened):
    planned(ctx)
    for i in range(3):
        ctx.record_action("run_cmd", {"cmd": str(i)}, "success", output="z" * 2000)
    opened().record_action("run_cmd", {"cmd": "3"}, "failure", error_msg="no")

    lines = published("history.jsonl")
    assert [line["args"]["cmd"] for line in lines] == ["0", "1", "2", "3"]
    assert [line["seq"] for line in lines] == sorted({line["seq"] for line in lines})
    assert lines[0]["output"] == "z" * 1000
    assert (lines[3]["result"], lines[3]["output"]) == ("failure", "no")
    assert set(lines[0]) == {
        *("seq", "timestamp", "name", "args", "result", "duration_s", "changed", "task_idx"),
        *("subtask_idx", "epoch", "attempt", "paths", "judges", "output"),
    }


def test_the_state_file_has_the_shape_that_is_promised(ctx):
    planned(ctx)
    ctx.record_action(*WRITE)
    state = published("state.json")
    assert set(state) == {
        *("version", "goal_id", "goal", "current_task_idx", "current_subtask_idx", "loop_counts"),
        *(
            "blocked_actions",
            "last_probe_state",
            "iteration",
            "epoch",
            "restarts",
            "attempt",
            "seq",
        ),
    }
    assert state["loop_counts"] == {signature(*WRITE): 1}
    subtask = state["goal"]["tasks"][0]["subtasks"][0]
    assert set(subtask) == {
        *("description", "status", "attempts", "last_failure", "actions_total", "actions"),
    }


def test_keys_are_kept_out_of_the_record(ctx, folder):
    key = "sk-abc123def456ghi789jkl012mno345"
    ctx.record_action("run_cmd", {"cmd": f"curl -H {key}"}, "success", output=f"key {key}")
    ctx.close()
    for path in (folder / ".agent_context").iterdir():
        assert key.encode() not in path.read_bytes()


def test_arguments_that_json_does_not_know_are_written_as_text(ctx):
    args = {"path": Path("a.py"), "tags": {"b", "a"}, "pair": (1, 2), "nan": float("nan")}
    assert ctx.record_action("write", args, "success")
    (line,) = published("history.jsonl")
    assert line["args"] == {"path": "a.py", "tags": ["a", "b"], "pair": [1, 2], "nan": "nan"}


def test_a_result_that_is_none_is_refused_by_name(ctx):
    with pytest.raises(ValueError, match="result 'maybe' must be one of success"):
        ctx.record_action("run_cmd", {}, "maybe")
    assert ctx.record_action("run_cmd", {}, "success")


def test_thresholds_come_from_the_environment(opened, monkeypatch):
    monkeypatch.setenv("CLEW_LOOPS__REPEAT_LIMIT", "2")
    ctx = opened()
    assert [ctx.record_action(*PYTEST) for _ in range(2)] == [True, False]


def test_what_is_in_memory_is_the_fold_of_what_is_recorded(ctx):
    planned(ctx, ("a", "b"), ("c",))
    for _ in range(3):
        ctx.record_action(*PYTEST, error_msg="no")
    ctx.state.blocked_actions.clear()
    ctx.state.goal.tasks[0].subtasks[1].status = "skipped"
    ctx.update_probe_state({"ok": True})
    ctx.outcome(ctx.propose("run_cmd", {"cmd": "make"}), "success", output="made")
    for _ in range(2):
        ctx.mark_subtask_complete(success=False, reason="no")
    ctx.state.goal.tasks[0].subtasks.append(Subtask("another way"))
    ctx.record_action(*WRITE)
    ctx.state.current_task_idx, ctx.state.current_subtask_idx = 1, 0
    ctx.propose("run_cmd", {"cmd": "in flight"})

    goal = ctx._open
    rows = ((r.seq, decode(r.body)) for r in goal._ledger.read(ctx.state.goal_id))
    assert dump(fold(rows)) == dump(goal.state)


def test_a_probe_from_before_the_last_change_is_not_shown_as_current(ctx, folder):
    planned(ctx)
    ctx.update_probe_state({"tests_exist": False})
    assert "CURRENT STATE:\n  tests_exist: ✗" in ctx.get_compact_context()
    (folder / "t.py").write_text("assert True")
    ctx.record_action(*WRITE)
    assert "CURRENT STATE" not in ctx.get_compact_context()
    assert "EARLIER STATE:\n  tests_exist: ✗ (at the start; changed since)" in (
        ctx.get_compact_context()
    )
    assert published("state.json")["last_probe_state"] == {}
    ctx.update_probe_state({"tests_exist": True})
    assert "CURRENT STATE:\n  tests_exist: ✓" in ctx.get_compact_context()
    assert published("state.json")["last_probe_state"] == {"tests_exist": True}
