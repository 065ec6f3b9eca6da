"""The command line and a real daemon: dropping, watching, steering and reading goals."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness import become_subreaper, forge

from clew_daemon.reading.client import RequestRefused, call
from clew_daemon.record.store import load_state
from clew_shared.ledger import Reader

CONFIG = """\
[daemon]
settle_s = 0.05
[heartbeat]
interval_s = 0.2
[restart]
stop_grace_s = 2
[sandbox]
mode = "best_effort"
"""
QUICK = "# Say hello\n\n## Do\n- [ ] Write it\n  ```text file=hello.txt\n  hello\n  ```\n"
LONG = (
    "---\non_interrupt: retry\n---\n# Wait long\n\n## Do\n- [ ] Wait\n  ```sh\n  sleep 600\n  ```\n"
)
FAILING = "---\nchecks: {never: 'false'}\n---\n" + QUICK.replace("hello", "bye")
DEADLINE_S = 60.0


class Clew:
    """One clew on a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CLEW_")}

    def argv(self, *args: object) -> list[str]:
        return [sys.executable, "-m", "clew_daemon", "--home", str(self.home), *map(str, args)]

    def __call__(self, *args: object, code: int = 0, stdin: str = "") -> str:
        become_subreaper()  # a forked process is then our child
        done = forge().run(self.argv(*args), self.env, stdin, 100)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr

    def goal(self, goal: str) -> dict:
        return json.loads(self("status", goal, "--json"))["goal"]

    def wait_for(self, goal: str, *statuses: str) -> dict:
        deadline = time.monotonic() + DEADLINE_S
        while (now := self.goal(goal))["status"] not in statuses:
            assert time.monotonic() < deadline, now
        return now

    def submit(self, text: str) -> str:
        return self("submit", "-", stdin=text).strip()


@contextmanager
def started(folder: Path) -> Iterator[Clew]:
    """Run a daemon on a home in the folder while the block lasts."""
    clew = Clew(folder / "home")
    clew.home.mkdir()
    (clew.home / "config.toml").write_text(CONFIG)
    with (folder / "daemon.out").open("wb") as out:
        daemon = subprocess.Popen(clew.argv("run"), stdout=out, stderr=out, env=clew.env)
    clew.daemon = daemon
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not (json.loads(clew("status", "--json"))["daemon"] or {}).get("ready"):
            assert daemon.poll() is None, (folder / "daemon.out").read_text()
            assert time.monotonic() < deadline
        yield clew
    finally:
        daemon.terminate()
        daemon.wait(DEADLINE_S)


@pytest.fixture(scope="module")
def clew(tmp_path_factory):
    with started(tmp_path_factory.mktemp("clew")) as clew:
        yield clew


def test_submit_wait_follows_a_goal_to_its_end(clew):
    out = clew("submit", "--wait", "-", stdin=QUICK)
    goal = out.splitlines()[0]
    assert f"{goal}: completed, unverified 100%" in out
    view = json.loads(clew("status", "--json"))
    assert view["daemon"]["pid"] == clew.daemon.pid
    found = [(g["status"], g["progress"]) for g in view["goals"] if g["id"] == goal]
    assert found == [("completed", 1)]
    assert [a["result"] for a in json.loads(clew("history", goal, "--json"))["actions"]] == [
        "success"
    ]
    assert json.loads(clew("verify", "--json"))["ok"]


@pytest.mark.parametrize(
    ("params", "told"),
    [({"before": "nope"}, "no goal 'nope'"), ({"limit": "x"}, "a number of goals")],
)
def test_a_page_of_goals_that_is_none_is_refused_with_a_word(clew, params, told):
    with pytest.raises(RequestRefused, match=told):
        call(clew.home / "run" / "control.sock", "status", **params)


def test_submit_wait_of_a_goal_that_is_not_reached_exits_one_and_says_why(clew):
    out = clew("submit", "--wait", "-", stdin=FAILING, code=1)
    assert "checks failed: never" in out


def test_submit_wait_of_a_goal_that_needs_a_person_exits_one_and_shows_the_question(clew):
    out = clew("submit", "--wait", "-", stdin="Think of something.\n", code=1)
    assert "question: " in out
    assert "no model" in out
    assert "`clew continue " in out
    assert "clew feedback" not in out  # of no use here: the config must be fixed


def test_a_file_that_only_the_daemon_can_judge_is_refused_in_its_words(clew):
    text = f"---\nworkspace: {clew.home}/state/inside\n---\n{QUICK}"
    out = clew("submit", "-", stdin=text, code=1)
    assert "workspace" in out
    assert not list((clew.home / "inbox").glob("stdin-*"))


def test_a_goal_is_paused_resumed_cancelled_and_retried(clew):
    goal = clew.submit(LONG)
    pid = clew.wait_for(goal, "in_progress")["pid"]
    assert clew("pause", "--now", goal).startswith(f"{goal}: paused")
    assert clew.goal(goal)["pid"] is None
    assert not Path(f"/proc/{pid}").exists()
    assert clew("resume", goal).startswith(f"{goal}: ")
    clew.wait_for(goal, "in_progress")
    assert clew("cancel", goal[:-1]).startswith(f"{goal}: cancelled")
    assert "cancelled" in clew("cancel", goal, code=1)
    clew("retry", goal)
    clew.wait_for(goal, "in_progress")
    clew("cancel", goal)


def test_feedback_reaches_the_record_and_unblock_of_what_is_not_blocked_is_told(clew):
    goal = clew.submit(LONG)
    clew.wait_for(goal, "in_progress")
    clew("feedback", goal, "use less sleep")
    with Reader.open(clew.home / "state" / "ledger.db") as reader:
        assert load_state(reader, goal).feedback == ["use less sleep"]
    clew("unblock", goal, "run_cmd::{}", code=1)
    assert "no goal" in clew("feedback", "nobody", "text", code=1)
    clew("cancel", goal)


def test_reload_prints_what_changed_or_every_fault(clew):
    config = clew.home / "config.toml"
    assert clew("reload") == f"nothing changed in {config}\n"
    config.write_text(CONFIG + "[loops]\nrepeat_limit = 5\n")
    assert clew("reload") == "loops.repeat_limit: 3 -> 5\n"
    config.write_text("[loops]\nrepeat_limit = 0\n[nope]\n")
    out = clew("reload", code=1)
    assert "repeat_limit" in out
    assert "nope" in out
    config.write_text(CONFIG)
    assert clew("reload") == "loops.repeat_limit: 5 -> 3\n"


def test_logs_follow_across_rotation_and_filter_by_goal(clew):
    with subprocess.Popen(
        clew.argv("logs", "-f", "-n", "10000"), stdout=subprocess.PIPE, text=True, env=clew.env
    ) as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["event"] == "daemon.started"
        log = clew.home / "state" / "clew.log"
        log.rename(log.with_name("clew.log.1"))
        log.write_text('{"event": "after.rotation"}\n')
        events = iter(following.stdout.readline, "")
        assert any(json.loads(line)["event"] == "after.rotation" for line in events)
        following.send_signal(signal.SIGINT)
        assert following.wait(DEADLINE_S) == 130


def test_logs_of_one_goal_hold_only_its_lines(clew):
    goal = clew("submit", "--wait", "-", stdin=QUICK).split()[0]
    lines = [json.loads(line) for line in clew("logs", goal).splitlines()]
    assert {line["goal"] for line in lines} == {goal}
    assert "goal.completed" in {line["event"] for line in lines}
    assert len(clew("logs", "-n", "2").splitlines()) == 2


def test_a_second_daemon_names_the_first_and_leaves_it_alone(clew):
    assert str(clew.daemon.pid) in clew("run", code=1)
    assert json.loads(clew("status", "--json"))["daemon"]["pid"] == clew.daemon.pid


def test_reading_goes_on_when_the_daemon_is_gone(tmp_path):
    with started(tmp_path) as clew:
        goal = clew.submit(LONG)
        clew.wait_for(goal, "in_progress")
        clew.daemon.kill()
        clew.daemon.wait(DEADLINE_S)
        view = json.loads(clew("status", "--json"))
        assert view["daemon"] is None
        assert [(g["status"], g["pid"]) for g in view["goals"]] == [("in_progress", None)]
        assert json.loads(clew("verify", "--json"))["ok"]
        clew("pause", goal, code=3)


def test_doctor_finds_the_running_daemon(clew):
    out = subprocess.run(
        clew.argv("doctor", "--json"), capture_output=True, text=True, check=False, timeout=100
    ).stdout
    checks = {check["name"]: check for check in json.loads(out)["checks"]}
    assert (checks["daemon"]["level"], checks["ledger"]["level"]) == ("ok", "ok")
