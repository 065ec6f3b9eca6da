"""`ContextManager` under a daemon: every call is a word of the protocol. The daemon here is a core on a socket."""

import json
import socket
import threading
from collections import deque
from contextlib import closing
from itertools import count

import pytest

from clew_shared.config.tables import LoopSettings
from clew_shared.core.answers import ActionReport, WrongState
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec
from clew_shared.record.state import State
from clew_shared.views.publish import state_view
from clew_shared.wire import protocol
from clew_worker import ContextManager, Subtask, SyncClient, Task

GOAL = "Create mathx package"
PYTEST = ("run_cmd", {"cmd": ["pytest", "-q"]}, "error")


class Daemon(threading.Thread):
    """Answers one agent as the daemon's session does, from a core in memory."""

    def __init__(self, sock, tasks=()):
        super().__init__(daemon=True)
        self.sock, self.heard, self.beats = sock, deque(), threading.Semaphore(0)
        self.finished = []
        numbers = count(1)
        self.core = Core(State(), LoopSettings(), lambda: next(numbers))
        spec = Spec(description=GOAL, notes="mind the tests")
        self.core.emit(ev.GoalAccepted(goal_id="mathx-1", spec=spec, tasks=tasks))
        self.core.emit(ev.GoalStarted())
        self.core.emit(ev.WorkerStarted(epoch=1))
        self.core.start(0.0)

    def run(self):
        with self.sock.makefile("rb") as lines:
            for line in lines:
                message = protocol.parse(line)
                if message["method"] == "heartbeat":
                    self.beats.release()
                    continue
                self.heard.append(message["method"])
                params = protocol.params(message["method"], message["params"])
                try:
                    answer = protocol.result(
                        message["id"], getattr(self, message["method"])(params)
                    )
                except WrongState as error:
                    answer = protocol.error(message["id"], protocol.WRONG_STATE, str(error))
                note = protocol.notification("feedback", {"text": "well done"})
                self.sock.sendall(note + answer)

    def view(self):
        state = self.core.state
        return json.loads(json.dumps(state_view(state))) | {
            "replan_required": state.replan_required or None
        }

    def hello(self, _):
        ids = {"goal_id": "mathx-1", "epoch": 1, "notes": "mind the tests", "heartbeat_s": 0.01}
        return ids | {"state": self.view()}

    def record(self, p):
        said = self.core.record(p.tool, p.args, ActionReport(p.result, p.output, p.changed), 0.0)
        verdict = "allowed" if said.allowed else "blocked"
        judged = {"verdict": verdict, "allowed": said.allowed, "seq": said.seq}
        return judged | {"reason": said.reason, "message": "m"}

    def propose(self, p):
        said = self.core.propose(p.tool, p.args, 0.0)
        return {"verdict": "allowed" if said.allowed else "blocked", "seq": said.seq}

    def outcome(self, p):
        self.core.outcome(p.seq, ActionReport(p.result, p.output, p.changed), 0.0)
        return {"intervention": None, "escalated_to": None}

    def plan(self, p):
        tasks = tuple(PlannedTask.model_validate(t.model_dump()) for t in p.tasks)
        self.core.plan(tasks, p.replan, 0.0, covers=p.covered)
        return {"state": self.view()}

    def complete_subtask(self, p):
        level = self.core.complete_subtask(0.0, success=p.success, failure=p.failure)
        return {"state": self.view(), "escalated_to": level}

    def advance(self, _):
        more = self.core.advance(0.0)
        return {"subtask": {} if more else None, "task": {} if more else None}

    def finish(self, p):
        self.finished.append(p.success)
        return {"accepted": True, "failing_checks": [], "open_subtasks": []}


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Start daemons, and end them after the test."""
    running = []

    def start(tasks=()):
        ours, theirs = socket.socketpair()
        daemon = Daemon(ours, tasks)
        daemon.start()
        running.append((daemon, ours))
        monkeypatch.setenv("CLEW_FD", str(theirs.detach()))
        return daemon

    monkeypatch.chdir(tmp_path)
    yield start
    for daemon, sock in running:
        with closing(sock):
            sock.shutdown(socket.SHUT_RDWR)
            daemon.join(10)


@pytest.fixture
def opened(started):
    all_opened = []

    def open_goal(tasks=()):
        daemon = started(tasks)
        ctx = ContextManager()
        all_opened.append(ctx)
        ctx.load_or_init("whatever the agent was told")
        return daemon, ctx

    yield open_goal
    for ctx in all_opened:
        ctx.close()
    SyncClient.from_env().close()


def planned(*names):
    steps = tuple(PlannedSubtask(description=n) for n in names)
    return (PlannedTask(description="Task 1", subtasks=steps),)


def test_the_goal_is_the_daemons_and_nothing_is_written_here(opened, tmp_path):
    _, ctx = opened()
    assert ctx.state.goal.description == GOAL
    assert ctx.state.goal_id == "mathx-1"
    assert list(tmp_path.iterdir()) == []


def test_tasks_appended_at_the_beginning_are_sent_as_the_plan(opened):
    daemon, ctx = opened()
    assert ctx.state.goal.tasks == []
    task = Task("Create package", [Subtask("a"), Subtask("b")])
    ctx.state.goal.tasks.append(task)
    assert ctx.record_action(*PYTEST)
    assert [s.description for s in daemon.core.state.goal.tasks[0].subtasks] == ["a", "b"]
    assert ctx.state.goal.tasks[0] is task
    assert (task.subtasks[0].status, task.subtasks[0].actions_total) == ("in_progress", 1)


def fail_twice(ctx):
    return [ctx.mark_subtask_complete(success=False, reason="no") for _ in range(2)]


def replaced(task):
    task.subtasks[:] = [Subtask("another way")]


def appended(task):
    task.subtasks.append(Subtask("another way"))


@pytest.mark.parametrize("change", [replaced, appended, None])
def test_a_replan_leaves_the_same_trace_with_a_daemon_and_without(opened, change):
    local = ContextManager()
    local.load_or_init(GOAL)
    local.state.goal.tasks.append(Task("Task 1", [Subtask("a"), Subtask("b")]))
    daemon, managed = opened(planned("a", "b"))
    for ctx in (local, managed):
        fail_twice(ctx)
        if change:
            change(ctx.state.goal.tasks[0])
            ctx.record_action(*PYTEST)
        else:
            ctx.advance_to_next_subtask()
    recorded = local._goal.state
    local.close()
    assert recorded.set_aside == daemon.core.state.set_aside == ["a (blocked: no)"]
    assert recorded.covered == daemon.core.state.covered == (["b"] if change is replaced else [])
