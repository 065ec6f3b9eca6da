"""The faults of the five designs that clew was made from, each held by a test of the opposite.

For the library without a daemon, as somebody who adopts it in an agent of their own would find out. What is
held elsewhere in this folder (streams, records, most of the playbook) is not said again.
"""

import json
import re
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew_shared.prompt.compact import compact_context
from clew_shared.record.model import Action, Goal, Subtask, Task
from clew_shared.record.scope import Tally
from clew_shared.record.state import State
from clew_worker import (
    ContextManager,
    DualTrackContext,
    ExecutionReflector,
    IterationLog,
    LedgerError,
    Playbook,
    ToolCall,
)

GOAL = "Create mathx package with add function and tests"
PYTEST = ("run_cmd", {"cmd": ["pytest", "-q"]}, "error")


@pytest.fixture
def opened():
    all_opened = []

    def open_goal(goal=GOAL, *names):
        ctx = ContextManager()
        all_opened.append(ctx)
        ctx.load_or_init(goal)
        if names:
            ctx.state.goal.tasks.append(Task("A task", [Subtask(name) for name in names]))
        return ctx

    yield open_goal
    for ctx in all_opened:
        ctx.close()


def python(code, folder, *args):
    """Run a program of its own in the folder; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


# -- the need-to-know text -----------------------------------------------------------------------------


def test_the_output_of_a_failing_command_is_seen_and_its_end_too(opened):
    ctx = opened(GOAL, "Fix it")
    ctx.record_action(*PYTEST, output="collecting\n" * 200 + "E  ImportError: no module mathx")
    text = ctx.get_compact_context()
    assert "→ error: collecting" in text
    assert "ImportError: no module mathx" in text


def test_what_failed_in_this_subtask_is_still_named_when_it_is_no_longer_recent(opened):
    ctx = opened(GOAL, "Fix it")
    ctx.record_action("run_cmd", {"cmd": "make"}, "failure", output="no rule to make target")
    for i in range(6):
        ctx.record_action("read_file", {"path": f"{i}.py"}, "success", output=f"text {i}")
    text = ctx.get_compact_context()
    assert 'FAILED BEFORE: run_cmd::{"cmd":"make"}: no rule to make target' in text
    ctx.record_action("run_cmd", {"cmd": "make"}, "success", output="built")
    assert "FAILED BEFORE" not in ctx.get_compact_context()


def test_testing_after_each_edit_is_no_warning_but_repeating_is(opened, folder):
    ctx = opened(GOAL, "Fix it")
    for i in range(4):
        (folder / "a.py").write_text(f"{i}")
        ctx.record_action("edit_file", {"path": "a.py", "new": str(i)}, "success")
        ctx.record_action(*PYTEST, output="1 failed")
    assert "WARNING: tried" not in ctx.get_compact_context()
    ctx.record_action(*PYTEST, output="1 failed")
    assert "WARNING: tried 2 times: run_cmd" in ctx.get_compact_context()


def test_a_block_that_a_change_has_lifted_is_said_to_be_free(opened, folder):
    ctx = opened(GOAL, "Fix it")
    for _ in range(3):
        ctx.record_action(*PYTEST, output="1 failed")
    assert "\nBLOCKED: run_cmd::" in ctx.get_compact_context()
    (folder / "a.py").write_text("mended")
    ctx.record_action("edit_file", {"path": "a.py"}, "success")
    assert "BLOCKED before the last change, free now: run_cmd::" in ctx.get_compact_context()
    assert ctx.record_action(*PYTEST, output="1 failed")


words = st.text(max_size=120)
long_words = st.text(max_size=6000)
results = st.sampled_from(["success", "failure", "error", "timeout", "blocked", "interrupted"])
statuses = st.sampled_from(["pending", "in_progress", "completed", "skipped", "failed", "blocked"])


@st.composite
def states(draw):
    subtasks = [
        Subtask(name, status, last_failure=failure, summary=summary)
        for name, status, failure, summary in draw(
            st.lists(st.tuples(words, statuses, words, words), min_size=1, max_size=40)
        )
    ]
    state = State(goal=Goal(draw(long_words), [Task(draw(words), subtasks)]))
    state.current_subtask_idx = draw(st.integers(0, len(subtasks) - 1))
    subtasks[state.current_subtask_idx].description = "now " + draw(long_words)
    for seq in range(draw(st.integers(0, 12))):
        action = Action(draw(words), {"x": draw(words)}, draw(results), seq=seq)
        subtasks[state.current_subtask_idx].actions.append(action)
        tally = Tally(result=action.result, head=draw(st.text(max_size=400)), seq=seq)
        state.scope.tallies[action.signature()] = {"": tally}
    state.spec = state.spec.model_copy(update={"notes": draw(long_words)})
    state.scope.blocks = {name: {"*": "repetition"} for name in draw(st.sets(words, max_size=60))}
    state.scope.loop_counts = dict.fromkeys(draw(st.sets(words, max_size=20)), 2)
    if draw(st.booleans()):
        state.attention.raised["stuck"] = 3
    state.set_aside = draw(st.lists(words, max_size=10))
    return state


@settings(deadline=None)
@given(states(), st.integers(50, 3000))
def test_the_text_never_exceeds_its_limit_and_keeps_what_must_stay(state, max_chars):
    text = compact_context(state, max_chars)
    assert len(text) <= max_chars
    assert compact_context(state, max_chars) == text
    if max_chars >= 200:
        starts = [line[:2] for line in text.split("\n")]
        assert starts[0] == "GO"
        assert "AC" in starts
        assert ("BL" in starts) == bool(state.scope.blocks)
        assert "WA" in starts or not state.attention.raised


@settings(deadline=None)
@given(states())
def test_what_is_dropped_is_dropped_in_the_agreed_order(state):
    text = compact_context(state, 2000)
    rows = ("  - ", "NOTES: ", "DONE: ")
    whole = compact_context(state, 10**9)
    present = [any(line.startswith(row) for line in text.splitlines()) for row in rows]
    existed = [any(line.startswith(row) for line in whole.splitlines()) for row in rows]
    kept = [here for here, there in zip(present, existed, strict=True) if there]
    assert kept == sorted(kept)  # once one kind is gone, those before it are gone too


@pytest.mark.parametrize("max_chars", [2000, 1000, 600])
def test_however_long_the_notes_the_newest_output_is_seen(max_chars):
    state = State(goal=Goal("g" * 5000, [Task("t", [Subtask("now")])]))
    state.spec = state.spec.model_copy(update={"notes": "n" * 5000})
    action = Action("run_cmd", {"cmd": "make"}, "failure", seq=1)
    state.goal.tasks[0].subtasks[0].actions.append(action)
    state.scope.tallies[action.signature()] = {"": Tally(result="failure", head="no rule", seq=1)}
    assert "→ failure: no rule" in compact_context(state, max_chars)


# -- the record ----------------------------------------------------------------------------------------

QUICK_START = """
from clew_worker import ContextManager, Task, Subtask

ctx = ContextManager()
ctx.load_or_init("Create mathx package with tests")
task = Task(description="Create package structure")
task.subtasks = [
    Subtask(description="Create mathx/__init__.py"),
    Subtask(description="Add add() function"),
]
task.status = "in_progress"
task.subtasks[0].status = "in_progress"
ctx.state.goal.tasks.append(task)
ctx._save_state()
allowed = ctx.record_action(
    name="write_file",
    args={"path": "mathx/__init__.py", "content": "..."},
    result="success"
)
if not allowed:
    print("Action blocked - loop detected!")
context = ctx.get_compact_context(max_chars=2000)
ctx.mark_subtask_complete(success=True)
print(ctx.advance_to_next_subtask(), ctx.state.current_subtask_idx)
"""


def test_the_quick_start_of_the_first_design_runs_with_the_import_renamed(folder):
    assert python(QUICK_START, folder) == "True 1\n"
    names = {path.name for path in Path(".agent_context").iterdir()}
    assert {"state.json", "history.jsonl", "loops.json"} <= names


def test_a_process_that_ends_at_once_loses_nothing(folder, opened):
    code = QUICK_START.replace("print(ctx.adv", "import os; os._exit(9); print(ctx.adv")
    assert python(code, folder) == ""
    ctx = opened("Create mathx package with tests")
    subtasks = ctx.state.goal.tasks[0].subtasks
    assert [s.status for s in subtasks] == ["completed", "pending"]
    assert ctx.advance_to_next_subtask()
    assert ctx.state.subtask.description == "Add add() function"


OPENED = """
import os, sys
from clew_worker import ContextManager
c = ContextManager()
c.load_or_init(sys.argv[1])
"""


def test_another_process_does_not_interrupt_what_is_in_flight_in_a_live_one(folder, opened):
    ctx = opened(GOAL, "One")
    answer = ctx.propose("run_cmd", {"cmd": "make"})
    for end in ("c.close()", "os._exit(0)", "os._exit(0)"):
        assert python(OPENED + end, folder, GOAL) == ""
    ctx.outcome(answer, "success", "built")
    history = Path(".agent_context/history.jsonl").read_text().splitlines()
    assert [json.loads(line)["result"] for line in history] == ["success"]


def test_two_processes_at_once_lose_no_action_and_count_together(folder):
    code = """
import os
from clew_worker import ContextManager
with ContextManager() as ctx:
    ctx.load_or_init("Together")
    for i in range(25):
        assert ctx.record_action("note", {"i": i, "by": os.getpid()}, "success", output=str(i))
"""
    command = [sys.executable, "-c", code]
    both = [subprocess.Popen(command, cwd=folder) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    with ContextManager() as ctx:
        ctx.load_or_init("Together")
        assert ctx.state.subtask.actions_total == 50
    rows = Path(".agent_context/history.jsonl").read_text().splitlines()
    seqs = [json.loads(row)["seq"] for row in rows]
    assert len(seqs) == 50
    assert all(a < b for a, b in pairwise(seqs))


def calls_made(ctx, steps):
    """Count the calls of Python that it takes to record so many new actions."""
    made = 0

    def count(_frame, event, _arg):
        nonlocal made
        made += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for i in steps:
            ctx.record_action("run_cmd", {"cmd": f"step {i}"}, "success", output=f"{i}")
    finally:
        sys.setprofile(before)
    return made


def test_the_work_of_a_step_does_not_grow_with_the_history(opened, monkeypatch):
    standing = SimpleNamespace(monotonic=lambda: 0.0, time=time.time)
    monkeypatch.setattr("clew_worker.library.local.time", standing)
    ctx = opened(GOAL, "Long")
    calls_made(ctx, range(300))
    published = Path(".agent_context/state.json").stat()
    early = calls_made(ctx, range(300, 350))
    calls_made(ctx, range(350, 1150))
    late = calls_made(ctx, range(1150, 1200))
    assert late < early * 1.1
    assert Path(".agent_context/state.json").stat().st_ino == published.st_ino
    ctx.save()
    state = json.loads(Path(".agent_context/state.json").read_text())
    assert state["goal"]["tasks"][0]["subtasks"][0]["actions_total"] == 1200


def test_a_state_file_that_may_follow_later_is_written_at_a_block(opened):
    ctx = opened(GOAL, "Long")
    for i in range(250):
        ctx.record_action("run_cmd", {"cmd": f"step {i}"}, "success", output=f"{i}")
    for _ in range(3):
        ctx.record_action(*PYTEST)
    state = json.loads(Path(".agent_context/state.json").read_text())
    assert state["blocked_actions"] == [Action(*PYTEST[:2]).signature()]


# -- what a person who makes a mistake is told ---------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda c: c.record_action("ls", "-l", "success"), TypeError, "args of ls must be names"),
        (lambda c: c.record_action("", {}, "success"), ValueError, "needs the name of its tool"),
        (
            lambda c: c.record_action("ls", {}, "done"),
            ValueError,
            "must be one of success, failure",
        ),
        (
            lambda c: c.update_probe_state(["ok"]),
            TypeError,
            "probes must be names with true or false",
        ),
        (lambda c: (c.state.goal.tasks.append("a"), c.save()), TypeError, "append Task"),
        (
            lambda c: (c.state.goal.tasks.append(Task("a", ["b"])), c.save()),
            TypeError,
            "not a Subtask",
        ),
    ],
)
def test_a_wrong_call_says_what_to_do_and_changes_nothing(opened, call, error, says):
    ctx = opened()
    with pytest.raises(error, match=says):
        call(ctx)
    ctx.state.goal.tasks.clear()
    assert ctx.record_action("ls", {}, "success")


def test_what_one_is_told_names_calls_that_the_library_has(opened):
    ctx = opened(GOAL, "A subtask")
    told = []
    for _ in range(4):
        ctx.record_action("read_file", {"path": "a"}, "success", output="text", changed=False)
        told.append(ctx.answer.message or (ctx.answer.intervention or {}).get("message", ""))
    ring = [("ls", {}, "success"), ("run_cmd", {"cmd": "true"}, "success")]
    for i in range(8):
        ctx.record_action(*ring[i % 2])
        told.append(ctx.answer.message)
    stale = opened("Another goal", "A subtask")
    for i in range(12):
        stale.record_action("search", {"pattern": f"{i}"}, "success", "", "nothing", False)
        told.append((stale.answer.intervention or {}).get("message", ""))
    told = [text for text in told if text]
    assert {text.split()[0] for text in told} >= {"You", "Refused,", "This"}
    assert any("brought nothing new" in text for text in told)
    for text in told:
        named = re.findall(r"(\w+)\(", text)
        assert "mark_subtask_complete" in named
        assert all(callable(getattr(ContextManager, name)) for name in named)
        assert "complete_subtask" not in text
        assert "finish" not in text


def test_a_folder_where_no_record_can_be_kept_is_an_error_that_says_what_to_do(folder):
    (folder / ".agent_context").write_text("in the way")
    with pytest.raises(
        LedgerError, match=r"cannot be created: File exists; .*ContextManager\('path'\)"
    ):
        ContextManager().load_or_init(GOAL)
    with pytest.raises(LedgerError, match="No such file"):
        ContextManager(folder / "absent").load_or_init(GOAL)


def test_a_descriptor_that_is_no_daemons_is_an_error_that_says_what_to_do(monkeypatch):
    monkeypatch.setenv("CLEW_FD", "977")
    with pytest.raises(
        RuntimeError, match=r"CLEW_FD=977 is not a connection to a daemon .* unset CLEW_FD"
    ):
        ContextManager().load_or_init(GOAL)


# -- the other designs' quick starts -------------------------------------------------------------------


def test_the_research_loop_of_the_dual_track_design_runs():
    messages = [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Who?"}]
    ctx = DualTrackContext("Be brief", "Who?")
    for iteration in range(25):
        stuck = ctx.detect_stuck_loop(iteration)
        if stuck:
            messages.append({"role": "user", "content": ctx.inject_urgency(iteration, stuck)})
        if iteration >= 10:
            messages = ctx.build_optimized_messages(messages, iteration)
        call = {
            "id": f"c{iteration}",
            "type": "function",
            "function": {"name": "search", "arguments": "{}"},
        }
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        ctx.add_thinking("Look it up", has_tool_calls=True)
        result = {"role": "tool", "tool_call_id": call["id"], "content": f"fact {iteration}"}
        messages.append(result)
        ctx.add_tool_result(result)
        ctx.research_context["pages_read"] = iteration
        called = {c["id"] for m in messages for c in m.get("tool_calls") or ()}
        assert all(m["tool_call_id"] in called for m in messages if m["role"] == "tool")
        assert messages[0] == {"role": "system", "content": "Be brief"}


def test_the_record_of_the_reflection_design_is_taken_and_its_insights_come_back():
    log = IterationLog()
    call = {
        "tool": "search",
        "params": {"q": "flask production logging"},
        "raw_output": "…",
        "outcome": "success",
        "insights": "found setup docs",
        "learning": "werkzeug config matters",
        "relevance": "high",
    }
    log.add({"iteration": 1, "mode": "fast", "tool_calls": [call], "synthesis": "nearer"})
    (line,) = log.reasoning_context()
    assert "flask production logging" in line
    assert "→ found setup docs; werkzeug config matters" in line


def test_the_session_of_the_playbook_design_learns_and_shares_across_sessions(tmp_path):
    calls = [
        ToolCall(name="list_files", parameters={"path": "."}),
        ToolCall(name="read_file", parameters={"file_path": "test.py"}),
    ]
    result = ExecutionReflector().reflect("check file", calls, "success")
    session = Playbook()
    bullet = session.add_strategy(category=result.category, content=result.content)
    session.tag_bullet(bullet.id, "helpful")
    session.save(tmp_path / "playbook.json")
    other = Playbook()
    other.add_bullet("testing", "Run tests after code changes")
    text = other.merge(Playbook.load(tmp_path / "playbook.json")).as_context()
    assert "List directory before reading files" in text
    assert "(helpful=1, harmful=0)" in text
    assert "### Testing" in text
