"""One daemon per ledger, and every command finds it, whatever the environment says."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from harness import DEADLINE_S
from of_proc import alive

from clew_shared.ledger.lock import acquire, beside

LONG = """
# Wait long

## Do
- [ ] Wait
  ```sh
  sleep 600
  ```
"""
RACE = """
import asyncio, sys
from pathlib import Path
from clew_shared.ledger import Ledger
from clew_shared.ledger.lock import LockHeldError

async def race():
    print("here", flush=True)
    while sys.stdin.readline():
        try:
            ledger = Ledger.open(Path(sys.argv[1]))
        except LockHeldError as error:
            print("refused", error.holder.role, flush=True)
            ledger = None
        else:
            print("opened", flush=True)
        sys.stdin.readline()
        if ledger:
            await ledger.close(60)
        print("closed", flush=True)

asyncio.run(race())
"""


@pytest.fixture
def at_home(clew):
    """A clew whose folders come from HOME and XDG, and not from --home; its run folder is $XDG_RUNTIME_DIR/clew."""
    (clew.folder / "clew").symlink_to("home")
    (clew.folder / "runtime").mkdir(mode=0o700)
    clew.options = []
    clew.env = {
        "HOME": str(clew.folder),
        "XDG_CONFIG_HOME": str(clew.folder),
        "XDG_DATA_HOME": str(clew.folder),
        "XDG_STATE_HOME": str(clew.folder / "states"),
        "XDG_RUNTIME_DIR": str(clew.folder / "runtime"),
    }
    return clew


def ledger(clew):
    return clew.home / "state" / "ledger.db"


def under_way(clew):
    """Start a daemon and a goal that takes long; the goal, when its agent is at work."""
    goal = clew.start().submit(LONG)
    clew.wait("action.allowed", goal=goal)
    return goal


def test_another_runtime_dir_is_the_same_daemon(at_home):
    clew = at_home
    goal = under_way(clew)
    agent, first = clew.agent_pid(goal), clew.daemon.pid
    backup = clew.folder / "backup.db"
    clew.clew("backup", str(backup))
    clew.env["XDG_RUNTIME_DIR"] = str(clew.folder / "elsewhere")

    said = clew.clew("run", code=1)
    assert f"a clew daemon is running (process {first})" in said
    assert "Traceback" not in said
    before = (clew.folder / "states" / "clew" / "ledger.db").stat().st_ino
    assert f"process {first}" in clew.clew("restore", str(backup), code=1)
    assert (clew.folder / "states" / "clew" / "ledger.db").stat().st_ino == before
    assert alive(agent)  # a second daemon ended it, in 0.1.0

    assert json.loads(clew.clew("status", "--json"))["daemon"]["pid"] == first
    assert json.loads(clew.clew("status", goal, "--json"))["daemon"]["pid"] == first
    assert "nothing changed" in clew.clew("reload")
    assert "cancelled" in clew.clew("cancel", goal)
    clew.wait("goal.cancelled", goal=goal)
    assert not clew.seen("worker.leftover")


def test_a_link_to_the_ledger_is_the_same_ledger(clew, make_clew):
    clew.start()
    other = make_clew(name="other")
    (other.home / "state").mkdir(mode=0o700)
    (other.home / "state" / "ledger.db").symlink_to(ledger(clew))
    assert f"process {clew.daemon.pid}" in other.clew("run", code=1)


def test_a_file_system_without_locks_is_refused_with_what_to_do(clew):
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    if subprocess.run(["strace", "-q", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no process may be traced here")
    path = beside(ledger(clew))
    faults = ["-e", "trace=fcntl", "-e", "inject=fcntl:error=ENOLCK"]
    notes = str(clew.folder / "notes")
    clew.start(ready=False, under=("strace", "-f", "-o", notes, "-P", str(path), *faults))
    assert clew.daemon.wait(DEADLINE_S) == 78
    said = clew.log.read_text()
    assert f"{path}: this file system does not support locks" in said
    assert "local disk" in said
    assert "Traceback" not in said
    assert not ledger(clew).exists()


def test_of_two_that_open_a_ledger_at_the_same_instant_one_does_a_hundred_times(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    command = [sys.executable, "-c", RACE, str(tmp_path / "ledger.db")]
    racers = [subprocess.Popen(command, **pipes) for _ in range(2)]
    try:
        assert [one.stdout.readline() for one in racers] == ["here\n"] * 2
        for _ in range(100):
            assert sorted(told(racers)) in (
                ["opened", "refused None"],
                ["opened", "refused writer"],
            )
            assert told(racers) == ["closed", "closed"]
    finally:
        for one in racers:
            one.kill()
            one.communicate()


def told(racers):
    """Tell all to go on, and wait until each has said what came of it."""
    for one in racers:
        one.stdin.write("go\n")
    return [one.stdout.readline().strip() for one in racers]


def test_a_daemon_whose_lock_was_removed_and_taken_by_another_ends_at_once(clew):
    goal = under_way(clew)
    agent = clew.agent_pid(goal)
    os.kill(clew.daemon.pid, signal.SIGSTOP)
    path = beside(ledger(clew))
    path.unlink()
    with acquire(path, role="daemon"):
        os.kill(clew.daemon.pid, signal.SIGCONT)
        assert clew.daemon.wait(DEADLINE_S) == 1
        clew.assert_alone()
    assert not alive(agent)
    assert str(path) in clew.seen("daemon.stopped")[-1]["reason"]
    assert clew.verified()
