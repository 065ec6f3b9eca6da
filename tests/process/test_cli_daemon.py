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
