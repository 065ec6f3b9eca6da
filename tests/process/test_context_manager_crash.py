"""An agent that is killed at any moment has lost no call that came back to it."""

import json
import signal
import subprocess
import sys

import pytest

from clew_shared.ledger.verify import verify
from clew_worker import Action, ContextManager

GOAL = "Survive"
LOOPED = ("run_cmd", {"cmd": "make"}, "error")

AGENT = """
import os
from clew_worker import ContextManager, Subtask, Task

ctx = ContextManager()
ctx.load_or_init("Survive")
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
import os, signal
from clew_worker import ContextManager

ctx = ContextManager()
ctx.load_or_init("Survive")
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
    command = [sys.executable, "-c", AGENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder) as agent:
        lines = [agent.stdout.readline() for _ in range(acknowledged + 1)]
        agent.send_signal(signal.SIGKILL)
        lines += agent.stdout.readlines()
    assert agent.returncode == -signal.SIGKILL
    return [line.decode().strip() for line in lines[1:] if line.endswith(b"\n")]


def history(folder) -> list[dict]:
    text = (folder / ".agent_context/history.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_no_call_that_came_back_is_lost_and_none_is_there_twice(folder):
    told = []
    rounds = (1, 7, 20)
    for acknowledged in rounds:
        told += killed_after(acknowledged, folder)
        assert verify(folder / ".agent_context/ledger.db").ok

        with ContextManager() as ctx:
            ctx.load_or_init(GOAL)
            assert ctx.state.blocked_actions == [Action(*LOOPED[:2]).signature()]
            lines = history(folder)
        recorded = [line["args"]["name"] for line in lines if line["name"] == "note"]
        assert len(recorded) == len(set(recorded))
        assert set(told) <= set(recorded)
        assert len(recorded) <= len(told) + len(rounds)  # one each may not have been heard of
    with ContextManager() as ctx:
        ctx.load_or_init(GOAL)
        assert not ctx.record_action(*LOOPED)


def test_an_action_in_flight_at_two_deaths_is_refused(folder):
    said = []
    for _ in range(3):
        command = [sys.executable, "-c", IN_FLIGHT]
        done = subprocess.run(command, stdout=subprocess.PIPE, cwd=folder, check=False)
        said.append(done.stdout.decode())
    assert said == ["allowed", "allowed", "crash"]
