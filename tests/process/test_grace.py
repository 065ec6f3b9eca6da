"""A worker that is stopped has time: an action that ends within it has its outcome on record."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

STEP = "echo begun >> begun; until test -e go; do sleep 0.02; done; echo done >> trace"
RUNBOOK = f"""
# Wait

## Steps
- [ ] One
  ```sh
  {STEP}
  ```
"""
FOREIGN = "---\nagent: worker\n---\n# Wait\n\n## Steps\n- [ ] One\n"
ACTS = f"hello()\nif epoch == 1: run({STEP!r})\nnotice('stop') if epoch == 1 else done()"
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
    "an agent that waits for the answer": ACTS,
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
        text = (FOREIGN if agent else RUNBOOK).lstrip()
        front = f"workspace: {workspace}\n"
        text = text.replace("---\n", "---\n" + front, 1) if agent else f"---\n{front}---\n{text}"
        goal = clew.start().submit(text)
        clew.until((workspace / "begun").exists, "the action")
        return clew, goal, workspace

    return start


def results(clew, goal):
    return [one["result"] for one in json.loads(clew.cli("history", goal, "--json"))["actions"]]


@pytest.mark.parametrize(
    ("who", "how"),
    [
        *(("a runbook", how) for how in ("SIGTERM", "SIGINT", "cancel", "pause")),
        *((who, "cancel") for who in AGENTS if who != "a runbook"),
    ],
)
def test_an_action_that_ends_within_the_grace_has_its_outcome_recorded(at_work, who, how):
    clew, goal, workspace = at_work(AGENTS[who])
    if how.startswith("SIG"):
        clew.daemon.send_signal(signal.Signals[how])
        clew.wait("daemon.stopping")
        (workspace / "go").touch()
        assert clew.daemon.wait(60) == 0
    else:
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
    clew.cli("pause", goal)
    said = clew.cli("pause", "--now", goal)
    then = "you are asked before its step runs again"
    assert said == f"{goal}: paused; 1 running action was interrupted: {then}\n"
    assert results(clew, goal) == ["interrupted"]
    assert not (workspace / "trace").exists()
    assert clew.goal(goal)["pid"] is None


SYSTEMCTL = """#!/bin/sh
case "$*" in
*" show "*) echo UnitFileState=enabled; echo ActiveState=active; echo MainPID=$DAEMON;;
*" stop "*) kill $DAEMON; while grep -q "State:.[^Z]" /proc/$DAEMON/status; do sleep 0.02; done;;
esac
"""


def test_clew_stop_says_what_it_has_interrupted(at_work, tmp_path, monkeypatch):
    (tmp_path / "systemctl").write_text(SYSTEMCTL)
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    clew, goal, _ = at_work(grace_s=0.1)
    monkeypatch.setenv("DAEMON", str(clew.daemon.pid))
    clew.cli("service", "install")
    said = clew.cli("stop")
    assert said == "stopped; 1 running action was interrupted: the agent will be told\n"
    assert results(clew, goal) == ["interrupted"]
