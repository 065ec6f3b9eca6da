"""Section 9: the library without a daemon."""

import pytest

from clew_worker import (
    Action,
    Bullet,
    ContextManager,
    DualTrackContext,
    ExecutionReflector,
    Goal,
    IterationLog,
    Playbook,
    Subtask,
    Task,
    ToolCall,
)


@pytest.fixture
def manager(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return opened()


def opened(goal="Make it"):
    manager = ContextManager()
    manager.load_or_init(goal)
    if not manager.state.goal.tasks:
        manager.state.goal.tasks.append(Task("t", [Subtask("one"), Subtask("two")]))
    return manager


def test_the_third_identical_failure_is_refused(manager):
    assert [manager.record_action("run", {"cmd": "x"}, "failure", "no") for _ in range(3)] == [
        True,
        True,
        False,
    ]
    assert manager.state.blocked_actions == [Action("run", {"cmd": "x"}).signature()]
    assert "run" in str(manager.get_loop_summary())


def test_opened_again_it_goes_on_where_it_was(manager):
    manager.record_action("run", {"cmd": "x"}, "success", output="made", changed=True)
    manager.mark_subtask_complete(True)
    assert manager.advance_to_next_subtask()
    again = opened()
    assert again.state.current_subtask_idx == 1
    assert [s.status for s in again.state.goal.tasks[0].subtasks] == ["completed", "in_progress"]


def test_on_another_goal_it_starts_fresh(manager):
    manager.record_action("run", {"cmd": "x"}, "failure", "no")
    assert opened("Another thing").state.loop_counts == {}


def test_the_context_is_small_and_says_where_one_is(manager):
    for n in range(50):
        manager.record_action(
            "run", {"cmd": f"step {n}"}, "success", output="x" * 500, changed=True
        )
    context = manager.get_compact_context(max_chars=2000)
    assert len(context) <= 2000
    for part in ("Make it", "one", "step 49"):
        assert part in context


def test_probes_are_kept(manager):
    manager.update_probe_state({"built": True})
    assert opened().state.last_probe_state == {"built": True}


def test_a_goal_has_tasks_and_an_action_a_signature():
    assert Goal("g", [Task("t", [Subtask("s")])]).tasks[0].subtasks[0].description == "s"
    assert Action("a", {"b": 1, "a": "x"}).signature() == 'a::{"a":"x","b":1}'


def test_dual_track_keeps_the_system_prompt_and_the_question_and_marks_progress():
    context = DualTrackContext("SYSTEM", "the question", max_iterations=30)
    messages = [
        {"role": "system", "content": "SYSTEM"},
        {"role": "user", "content": "the question"},
    ]
    for n in range(12):
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [{"id": f"c{n}", "type": "function",
             "function": {"name": "read", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": "page " * 400},
        ]  # fmt: skip
        context.add_tool_result(messages[-1])
    built = context.build_optimized_messages(messages, 12)
    assert built[0] == messages[0]
    assert any(m["role"] == "user" and "the question" in m["content"] for m in built)
    assert "[PROGRESS: Iteration 12/30" in str(built)
    called = {c["id"] for m in built for c in m.get("tool_calls") or ()}
    assert called == {m["tool_call_id"] for m in built if m["role"] == "tool"}


def test_a_planet_is_not_planning():
    context = DualTrackContext("S", "U")
    for text in ("The planet Mars", "A planet again", "Planets all"):
        context.add_thinking(text, has_tool_calls=True)
    assert context.detect_stuck_loop(3) is None


def test_three_thoughts_of_planning_without_a_tool_are_a_loop():
    context = DualTrackContext("S", "U")
    for n in range(3):
        context.add_thinking(f"I plan to do step {n} next", has_tool_calls=False)
    assert context.detect_stuck_loop(3) in {"theme_loop", "repeated_planning"}


def test_three_stuck_iterations_bring_a_recovery():
    log = IterationLog()
    said = [
        log.add(
            {
                "iteration": n,
                "mode": "fast",
                "tool_calls": [],
                "synthesis": "",
                "progress_assessment": "stuck",
            }
        )
        for n in range(3)
    ]
    assert said[:2] == [None, None]
    assert "recover" in str(said[2]).lower()


def test_a_playbook_counts_what_is_added_twice_and_is_written_as_text(tmp_path):
    book = Playbook()
    bullet = book.add_bullet("File Operations", "List directory before reading files")
    book.add_bullet("File Operations", "List directory before reading files")
    (one,) = book.bullets()
    book.tag_bullet(one.id, "helpful")
    assert one.id.startswith("fil-")
    text = book.as_context()
    assert "## Learned Strategies" in text
    assert "### File Operations" in text
    book.save(tmp_path / "book.json")
    assert [b.content for b in Playbook.load(tmp_path / "book.json").bullets()] == [one.content]
    assert bullet is not None


def test_a_bullet_is_tagged():
    bullet = Bullet("fil-00001", "File Operations", "x")
    bullet.tag("helpful")
    assert bullet.helpful == 1


def test_an_error_yields_no_tip_drawn_from_success():
    calls = [ToolCall("list_files", {"path": "."}), ToolCall("read_file", {"path": "a"})]
    reflector = ExecutionReflector()
    learned = reflector.reflect("find it", calls, "success")
    failed = reflector.reflect("find it", calls, "error")
    assert learned is not None
    assert failed is None or failed.content != learned.content
    assert reflector.reflect("find it", calls[:1], "success") is None
