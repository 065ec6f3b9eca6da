"""The command line and a real daemon: what it waits for and follows, the demo, and the examples of the docs."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness import DEADLINE_S

QUICK = "# Say hello\n\n## Do\n- [ ] Write it\n  ```text file=hello.txt\n  hello\n  ```\n"


def test_submit_wait_says_why_a_goal_is_not_reached_what_it_asks_and_what_is_refused(clew):
    clew.start()
    failing = f"---\nchecks: {{never: 'false'}}\n---\n{QUICK}"
    assert "checks failed: never" in clew.clew("submit", "--wait", "-", given=failing, code=1)
    asked = clew.clew("submit", "--wait", "-", given="Think of something.\n", code=1)
    assert "question: " in asked
    assert "no model" in asked
    assert "`clew continue " in asked
    inside = f"---\nworkspace: {clew.home}/state/inside\n---\n{QUICK}"
    assert "workspace" in clew.clew("submit", "-", given=inside, code=1)
    assert not list((clew.home / "inbox").glob("stdin-*"))


def test_logs_follow_across_rotation(clew):
    clew.start()
    process, printed = clew.beside(clew.command("logs", "-f", "-n", "10000"))
    with printed:
        assert json.loads(printed.readline())["event"] == "daemon.started"
        log = clew.home / "state" / "clew.log"
        log.rename(log.with_name("clew.log.1"))
        log.write_text('{"event": "after.rotation"}\n')
        events = iter(printed.readline, "")
        assert any(json.loads(line)["event"] == "after.rotation" for line in events)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 130


@pytest.mark.parametrize(("number", "code"), [(2, 130), (15, 143)], ids=["SIGINT", "SIGTERM"])
def test_a_demo_that_is_stopped_stops_its_daemon_and_removes_its_home(tmp_path, number, code):
    command = [sys.executable, "-m", "clew_daemon", "demo"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as demo:
        assert demo.stdout is not None
        daemon = re.search(r"pid (\d+)", demo.stdout.readline())
        demo.send_signal(number)
        _, err = demo.communicate(timeout=60)
    assert (demo.returncode, err) == (code, "")
    assert list(tmp_path.iterdir()) == []
    assert daemon is not None
    with pytest.raises(ProcessLookupError):
        os.kill(int(daemon[1]), 0)


REPO = Path(__file__).resolve().parents[2]
AGENTS = (REPO / "docs" / "agents.md").read_text()
README = (REPO / "README.md").read_text()
GOAL = re.search(r"```markdown\n(---\nagent: plain\n.*?)```", AGENTS, re.DOTALL)[1]
FIRST_GOAL = re.search(r"````markdown\n(.*?)````", README, re.DOTALL)[1]


def example(text, info):
    return re.search(rf"```{re.escape(info)}\n(.*?)```", text, re.DOTALL)[1]


@pytest.fixture
def worker(clew):
    """A function that makes an agent of a script in the docs, and starts the daemon."""

    def make(name, **keys):
        folder = clew.folder / "agents"
        folder.mkdir()
        (folder / f"{name}.py").write_text(example(AGENTS, f"python agent={name}"))
        table = {"command": [sys.executable, str(folder / f"{name}.py")], **keys}
        clew.configure({f"agents.{name}.{key}": value for key, value in table.items()})
        return clew.start()

    return make


@pytest.mark.parametrize(
    ("name", "keys", "goal", "made"),
    [
        ("plain", {}, GOAL, "a.txt"),
        ("own", {"own_tools": True}, "---\nagent: own\n---\nMake notes.\n", "notes/today.txt"),
        ("mine", {}, "---\nagent: mine\n---\nLook where we are.\n", "where.txt"),
    ],
)
def test_the_workers_of_the_docs_do_their_goals(worker, name, keys, goal, made):
    clew = worker(name, **keys)
    assert clew.lines(clew.completed(goal), made)


def test_the_worker_in_plain_sockets_leaves_what_it_cannot_do_to_a_person(worker):
    clew = worker("plain")
    goal = clew.submit("---\nagent: plain\n---\n# Fail\n- false\n")
    clew.wait("goal.blocked", goal=goal)
    assert clew.goal(goal)["restarts"] == 0


def test_the_first_goal_of_the_readme_is_completed(clew):
    goal = clew.start().completed(FIRST_GOAL.replace("workspace: ~/greet\n", ""))
    assert clew.seen("check.passed", goal=goal, name="greets")
    [named] = set(re.findall(r"^clew (?:history|diff|undo) (\S+)", README, re.MULTILINE))
    assert goal.startswith(named)
