"""Agents that adopt `ContextManager`: started by a real daemon, unchanged, and killed at any moment without one."""

import json
import signal
import subprocess
import sys

import pytest

from clew_daemon.ledger.verify import verify
from clew_worker import Action, ContextManager

HEAD = """
import os, signal, sys
from pathlib import Path
from clew_worker import ContextManager, Subtask, Task
ctx = ContextManager()
ctx.load_or_init("Survive")
"""
GOAL = "---\nagent: own\n---\n# Do it\n\n## A task\n- [ ] First\n- [ ] Second\n- [ ] Third\n"


@pytest.fixture
def adopted(clew, tmp_path):
    """A function that lets a script with a `ContextManager` complete a goal; the goal."""

    def run(body, goal):
        script, shown = tmp_path / "agent.py", tmp_path / "shown"
        script.write_text(HEAD + body)
        shown.mkdir()
        command = [sys.executable, "-I", "-B", str(script), str(shown)]
        own = {"kind": "command", "command": command, "own_tools": True}
        clew.configure({f"agents.own.{key}": value for key, value in own.items()})
        clew.configure({"sandbox.write": [str(shown)]})
        return clew.start().completed(goal)

    return run


CRASHES = """
if ctx.state.epoch == 1:
    Path("a.txt").write_text("one")
    ctx.record_action("write_file", {"path": "a.txt"}, "success", output="created a.txt")
    ctx.mark_subtask_complete(success=True, reason="a.txt has one line")
    ctx.advance_to_next_subtask()
    for _ in range(3):
        ctx.record_action("run_cmd", {"cmd": "make"}, "failure", output="no rule to make target")
    os._exit(9)
out = Path(sys.argv[1])
(out / "text").write_text(ctx.get_compact_context())
again = ctx.record_action("run_cmd", {"cmd": "make"}, "failure", output="no rule to make target")
(out / "answer").write_text(f"{again} {ctx.answer.reason}")
ctx.mark_subtask_complete(success=True)
ctx.advance_to_next_subtask()
ctx.mark_subtask_complete(success=True)
assert ctx.advance_to_next_subtask() is False
"""


def test_after_a_crash_the_agent_sees_what_is_done_what_it_said_and_what_is_blocked(
    adopted, tmp_path
):
    adopted(CRASHES, GOAL)
    text = (tmp_path / "shown" / "text").read_text()
    assert "DONE: First: a.txt has one line" in text
    assert "ACTIVE SUBTASK: Second\nStatus: in_progress" in text
    assert "→ failure: no rule to make target" in text
    assert 'BLOCKED: run_cmd::{"cmd":"make"}' in text
    assert "NEXT: Third" in text
    assert (tmp_path / "shown" / "answer").read_text() == "False blocked_action"


PLANS = """
assert ctx.state.goal.tasks == []
ctx.state.goal.tasks.append(Task("All", [Subtask("First"), Subtask("Then")]))
assert ctx.record_action("look", {"n": 1}, "success")
assert [ctx.mark_subtask_complete(False, reason="no") for _ in range(2)][1] == "task"
ctx.state.goal.tasks[0].subtasks[:] = [Subtask("Another way")]
assert ctx.record_action("look", {"n": 2}, "success")
assert ctx.mark_subtask_complete(True) is None
assert ctx.finish("done") is False
assert list(ctx.failing_checks) == ["there"], ctx.failing_checks
Path("there").touch()
assert ctx.finish("done") is True
"""


def test_tasks_that_an_agent_brings_are_its_plan_and_a_failing_check_is_named(clew, adopted):
    goal = adopted(PLANS, "---\nagent: own\nchecks: {there: test -f there}\n---\nDo it\n")
    (task,) = clew.ask("status", goal=goal)["goal"]["goal"]["tasks"]
    assert [one["description"] for one in task["subtasks"]] == ["Another way"]


# -- without a daemon

LOOPED = ("run_cmd", {"cmd": "make"}, "error")
AGENT = """
if not ctx.state.goal.tasks:
    ctx.state.goal.tasks.append(Task("all", [Subtask("one")]))
while not ctx.state.blocked_actions:
    ctx.record_action("run_cmd", {"cmd": "make"}, "error")
os.write(1, b"ready\\n")
count = 0
while True:
    count += 1
    name = f"{os.getpid()}-{count}"
    if count % 2:
        ctx.record_action("note", {"name": name}, "success", output="x" * 3000)
    else:
        ctx.outcome(ctx.propose("note", {"name": name}), "success")
    os.write(1, f"{name}\\n".encode())
"""
IN_FLIGHT = """
answer = ctx.propose("run_cmd", {"cmd": "eat all memory"})
os.write(1, b"allowed" if answer else answer.reason.encode())
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLEW_FD", raising=False)
    return tmp_path


def killed_after(acknowledged: int, folder) -> list[str]:
    """Run the agent until so many calls came back to it, SIGKILL it, give what it had heard of."""
    command = [sys.executable, "-c", HEAD + AGENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder) as agent:
        lines = [agent.stdout.readline() for _ in range(acknowledged + 1)]
        agent.send_signal(signal.SIGKILL)
        lines += agent.stdout.readlines()
    assert agent.returncode == -signal.SIGKILL
    return [line.decode().strip() for line in lines[1:] if line.endswith(b"\n")]


def test_no_call_that_came_back_is_lost_and_none_is_there_twice(folder):
    told, rounds = [], (1, 7, 20)
    for acknowledged in rounds:
        told += killed_after(acknowledged, folder)
        assert verify(folder / ".agent_context/ledger.db").ok
        with ContextManager() as ctx:
            ctx.load_or_init("Survive")
            assert ctx.state.blocked_actions == [Action(*LOOPED[:2]).signature()]
            text = (folder / ".agent_context/history.jsonl").read_text()
        actions = [json.loads(line) for line in text.splitlines()]
        recorded = [one["args"]["name"] for one in actions if one["name"] == "note"]
        assert len(recorded) == len(set(recorded))
        assert set(told) <= set(recorded)
        assert len(recorded) <= len(told) + len(rounds)  # one each may not have been heard of
    with ContextManager() as ctx:
        ctx.load_or_init("Survive")
        assert not ctx.record_action(*LOOPED)


def test_an_action_in_flight_at_two_deaths_is_refused(folder):
    command = [sys.executable, "-c", HEAD + IN_FLIGHT]
    done = [subprocess.run(command, stdout=-1, cwd=folder, check=False) for _ in range(3)]
    assert [one.stdout for one in done] == [b"allowed", b"allowed", b"crash"]
