"""The faults of the five designs that clew was made from, each held by a test of the opposite.

For the library without a daemon, as somebody who adopts it in an agent of their own would find out. What is
held elsewhere in this folder (streams, records, most of the playbook) is not said again.
"""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from managed import GOAL

from clew_shared.record.model import Task
from clew_worker import ContextManager


def python(code, folder, *args):
    """Run a program of its own in the folder; what it printed."""
    command, pipes = [sys.executable, "-c", code, *args], {"capture_output": True, "text": True}
    done = subprocess.run(command, cwd=folder, timeout=60, check=False, **pipes)
    return done.stdout + done.stderr


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


OPENED = """
import os, sys
from clew_worker import ContextManager
c = ContextManager()
c.load_or_init(sys.argv[1])
"""


def test_another_process_does_not_interrupt_what_is_in_flight_in_a_live_one(folder, opened):
    ctx = opened()
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


def test_the_work_of_a_step_does_not_grow_with_the_history(opened):
    ctx = opened()
    calls_made(ctx, range(300))
    early = calls_made(ctx, range(300, 350))
    calls_made(ctx, range(350, 900))
    late = calls_made(ctx, range(900, 950))
    assert late < early * 1.1
    state = json.loads(Path(".agent_context/state.json").read_text())
    assert state["goal"]["tasks"][0]["subtasks"][0]["actions_total"] == 950


def append(ctx, task):
    ctx.state.goal.tasks.append(task)
    ctx.save()


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda c: c.record_action("ls", "-l", "success"), TypeError, "args of ls must be names"),
        (lambda c: c.record_action("", {}, "success"), ValueError, "needs the name of its tool"),
        (lambda c: c.record_action("ls", {}, "done"), ValueError, "must be one of success"),
        (lambda c: c.update_probe_state(["ok"]), TypeError, "probes must be names with true"),
        (lambda c: append(c, "a"), TypeError, "append Task"),
        (lambda c: append(c, Task("a", ["b"])), TypeError, "not a Subtask"),
    ],
)
def test_a_wrong_call_says_what_to_do_and_changes_nothing(opened, call, error, says):
    ctx = opened()
    with pytest.raises(error, match=says):
        call(ctx)
    ctx.state.goal.tasks.clear()
    assert ctx.record_action("ls", {}, "success")
