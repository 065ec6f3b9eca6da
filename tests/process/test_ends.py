"""An end is an end: neither what people ask at the same time nor what a check does undoes what was recorded."""

import fcntl
import json
import socket
import sys
import termios
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import runbook

DEAF = """
import time
hello()
say("here")
while True:
    time.sleep(1)  # told to stop, it goes on
"""

CHECKED = """
hello()
try:
    say(done())
except RefusedError as refused:
    say(str(refused))
"""

WAIT_FOR_GO = "touch checking; while [ ! -e go ]; do sleep 0.02; done"


class Request:
    """Something asked of the daemon, which has read it already; the answer may come much later."""

    def __init__(self, clew, method, goal, **params):
        self.channel = socket.socket(socket.AF_UNIX)
        self.channel.settimeout(60)
        self.channel.connect(str(clew.home / "run" / "control.sock"))
        ask = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"goal": goal, **params}}
        self.channel.sendall(json.dumps(ask).encode() + b"\n")
        clew.until(lambda: self._unread() == 0, f"the daemon has read {method}")

    def _unread(self):
        counted = fcntl.ioctl(self.channel, termios.TIOCOUTQ, bytes(4))
        return int.from_bytes(counted, sys.byteorder)

    def answer(self):
        with self.channel, self.channel.makefile("rb") as lines:
            return json.loads(lines.readline())


def goal_text(front=""):
    return f"---\nagent: worker\n{front}---\n# Work\n\n## Do\n- [ ] Work\n"


@pytest.mark.parametrize(
    ("reopening", "params"), [("resume", {}), ("retry", {}), ("feedback", {"text": "go on"})]
)
def test_a_cancel_is_not_undone_by_what_was_asked_before_it(clew, reopening, params):
    clew.configure({"restart.stop_grace_s": 3.0})
    clew.agent("worker", DEAF)
    blocked_soon = "budget: {wall_s: 0.5}\n" if reopening != "resume" else ""
    goal = clew.start().submit(goal_text(blocked_soon))
    clew.said(goal)
    if reopening == "resume":
        pause = Request(clew, "pause", goal)
        clew.wait("goal.waiting", goal=goal)
    else:
        clew.wait("goal.blocked", goal=goal)
    asked = Request(clew, reopening, goal, **params)
    clew.ask("cancel", goal=goal)
    answer = asked.answer()
    assert "is cancelled" in answer["error"]["message"]
    if reopening == "resume":
        assert pause.answer()["result"]["status"] == "cancelled"
    assert clew.goal(goal)["status"] == "cancelled"
    assert not clew.seen("goal.requeued", goal=goal)
    assert clew.stop() == 0
    assert clew.verified()


@pytest.mark.parametrize("method", ["cancel", "pause"])
def test_a_goal_that_is_stopped_while_its_checks_run_is_not_completed(clew, method):
    clew.configure({"restart.stop_grace_s": 20.0})
    clew.agent("worker", CHECKED)
    goal = clew.start().submit(goal_text(f"checks:\n  slow: {WAIT_FOR_GO}\n"))
    folder = clew.workspace(goal)
    clew.until((folder / "checking").exists, "the check")
    asked = Request(clew, method, goal)
    clew.wait({"cancel": "goal.cancelled", "pause": "goal.waiting"}[method], goal=goal)
    (folder / "go").touch()
    asked.answer()
    assert not clew.seen("goal.completed", goal=goal)
    assert clew.goal(goal)["status"] == {"cancel": "cancelled", "pause": "waiting"}[method]


def test_feedback_that_comes_while_the_checks_run_is_heard_before_the_goal_ends(clew):
    clew.agent(
        "worker",
        """
        hello()
        first = done()
        say(first)
        say(notice("feedback")["text"])
        say(call("finish", success=True, summary="heard")["accepted"])
        """,
    )
    goal = clew.start().submit(goal_text(f"checks:\n  slow: {WAIT_FOR_GO}\n"))
    folder = clew.workspace(goal)
    clew.until((folder / "checking").exists, "the check")
    clew.ask("feedback", goal=goal, text="also in German")
    (folder / "go").touch()
    first, told, accepted = clew.said(goal, count=3)
    assert not first["accepted"]
    assert "Feedback" in first["message"]
    assert first["failing_checks"] == []
    assert (told, accepted) == ("also in German", True)
    clew.wait("goal.completed", goal=goal)


def test_a_check_that_undoes_another_does_not_complete_a_goal(clew):
    clew.agent("worker", 'hello()\nrun("touch a")\nsay(done())\ncall("finish", success=False)')
    checks = "checks:\n  there: test -f a\n  tidy: rm -f a\n"
    goal = clew.start().submit(goal_text(checks))
    answer = clew.said(goal)[0]
    assert not answer["accepted"]
    assert [check["name"] for check in answer["failing_checks"]] == ["there"]
    clew.wait("goal.failed", goal=goal)


def test_a_check_that_makes_what_it_needs_once_completes_a_goal(clew):
    clew.agent("worker", "hello()\nsay(done())")
    goal = clew.start().submit(goal_text("checks:\n  builds: echo built > result\n"))
    assert clew.said(goal)[0]["accepted"]
    clew.wait("goal.completed", goal=goal)
    assert len(clew.seen("check.passed", goal=goal)) == 2


# -- a worker that is stopped has time: an action that ends within it has its outcome on record


STEP = "echo begun >> begun; until test -e go; do sleep 0.02; done; echo done >> trace"
LEAVES = f"""
hello()
if epoch == 2: done()
threading.Thread(target=run, args=({STEP!r},)).start()
notice("stop")
os._exit(0)
"""
OWN_TOOLS = """
hello()
if epoch == 2: done()
seq = call("propose", tool="run_cmd", args={"cmd": "make"})["seq"]
Path("begun").touch()
notice("stop")
while not Path("go").exists(): time.sleep(0.02)
Path("trace").write_text("done\\n")
say(call("outcome", seq=seq, result="success"))
"""
AGENTS = {
    "a runbook": None,
    "an agent that does not": LEAVES,
    "one with its own tools": "import time\n" + OWN_TOOLS,
}


@pytest.fixture
def at_work(make_clew, tmp_path):
    """Start a daemon with a goal whose action is being carried out; it ends when the file `go` is there."""

    def start(agent=None, grace_s=30.0):
        clew = make_clew({"restart.stop_grace_s": grace_s})
        if agent:
            clew.agent("worker", agent, own_tools="propose" in agent)
        workspace = tmp_path / "workspace"
        workspace.mkdir()
        text = (
            goal_text(f"workspace: {workspace}\n") if agent else runbook(STEP, workspace=workspace)
        )
        goal = clew.start().submit(text)
        clew.until((workspace / "begun").exists, "the action")
        return clew, goal, workspace

    return start


def results(clew, goal):
    return [one["result"] for one in json.loads(clew.cli("history", goal, "--json"))["actions"]]


@pytest.mark.parametrize(
    ("who", "how"),
    [("a runbook", "pause"), *((who, "cancel") for who in AGENTS if who != "a runbook")],
)
def test_an_action_that_ends_within_the_grace_has_its_outcome_recorded(at_work, who, how):
    clew, goal, workspace = at_work(AGENTS[who])
    with ThreadPoolExecutor(1) as pool:
        now = {"now": True} if how == "pause" else {}
        answer = pool.submit(clew.ask, how, goal=goal, **now)
        clew.wait({"cancel": "goal.cancelled", "pause": "goal.waiting"}[how], goal=goal)
        (workspace / "go").touch()
        assert answer.result(60)["said"] == {"cancel": "cancelled", "pause": "paused"}[how]
    assert results(clew, goal) == ["success"]
    assert (workspace / "trace").read_text() == "done\n"


@pytest.mark.parametrize("who", ["a runbook", "one with its own tools"])
def test_a_pause_waits_for_the_running_action_and_says_so(at_work, who):
    clew, goal, workspace = at_work(AGENTS[who], grace_s=0.0 if who == "a runbook" else 5.0)
    said = clew.cli("pause", goal)
    assert said.startswith(f"{goal}: pausing after the running action #")
    assert said.endswith(" s so far); --now interrupts it\n")
    view = clew.goal(goal)
    assert (view["status"], view["reason"][:30]) == ("waiting", "pausing after the running acti")
    assert "--now" in clew.cli("pause", goal, code=1)
    (workspace / "go").touch()
    clew.wait("worker.exited", goal=goal, crash=False)
    assert results(clew, goal) == ["success"]
    assert clew.until(lambda: clew.goal(goal)["reason"] == "paused")
    clew.cli("resume", goal)
    clew.wait("goal.completed", goal=goal)
    assert (workspace / "trace").read_text() == "done\n"


def test_a_pause_with_now_interrupts_a_running_action_after_its_grace(at_work):
    clew, goal, workspace = at_work(grace_s=0.1)
    assert "recorded. Its agent is a runbook, " in clew.cli("feedback", goal, "faster")
    clew.cli("pause", goal)
    said = clew.cli("pause", "--now", goal)
    asks = f"`clew continue {goal}` asks you first if it runs again"
    assert said == f"{goal}: paused; the running action was interrupted: {asks}\n"
    assert results(clew, goal) == ["interrupted"]
    assert not (workspace / "trace").exists()
    assert clew.goal(goal)["pid"] is None
    clew.cli("continue", goal)
    clew.wait("goal.blocked", goal=goal)
    assert "was cut off: the goal was paused\n" in clew.goal(goal)["question"]
    said = clew.cli("feedback", goal, "not again")
    assert said.startswith(f"{goal}: recorded; the goal continues, and runs the step again. Its ")
