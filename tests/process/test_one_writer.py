"""One daemon per ledger and per inbox, and every command finds it; a copied home does not work a second time."""

import json
import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from bad_disk import needs_strace
from harness import DEADLINE_S, Clew, forge, remove_at_once, runbook
from of_proc import alive, children

from clew_daemon.ledger.lock import LockHeldError, acquire, beside

LONG = runbook("sleep 600")


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


def test_a_file_system_without_locks_is_refused_with_what_to_do(clew):
    needs_strace()
    path = beside(clew.ledger)
    faults = ["-e", "trace=fcntl", "-e", "inject=fcntl:error=ENOLCK"]
    notes = str(clew.folder / "notes")
    under = ("strace", "-f", "-o", notes, "-P", str(path), *faults)
    said = clew.clew("run", code=78, under=under)
    assert f"{path}: this file system does not support locks" in said
    assert "local disk" in said
    assert "Traceback" not in said
    assert not clew.ledger.exists()


def test_of_two_that_take_a_lock_at_the_same_instant_one_does_a_hundred_times(tmp_path):
    ready = Barrier(2)

    def take(_):
        ready.wait(DEADLINE_S)
        try:
            return acquire(tmp_path / "lock", role="daemon")
        except LockHeldError:
            return None

    with ThreadPoolExecutor(2) as pool:
        for _ in range(100):
            (lock,) = filter(None, pool.map(take, range(2)))
            lock.release()
    (tmp_path / "link").symlink_to("ledger.db")
    assert beside(tmp_path / "link") == beside(tmp_path / "ledger.db")


def test_a_daemon_whose_lock_was_removed_and_taken_by_another_ends_at_once(clew):
    goal = under_way(clew)
    agent = clew.agent_pid(goal)
    os.kill(clew.daemon.pid, signal.SIGSTOP)
    path = beside(clew.ledger)
    path.unlink()
    with acquire(path, role="daemon"):
        os.kill(clew.daemon.pid, signal.SIGCONT)
        assert clew.daemon.wait(DEADLINE_S) == 1
        clew.assert_alone()
    assert not alive(agent)
    assert str(path) in clew.seen("daemon.stopped")[-1]["reason"]
    assert clew.verified()


WORK = runbook(*(f"echo {i} >> trace; sleep 0.05" for i in range(400)))
LATER = runbook("true", not_before="2999-01-01T00:00:00Z")


@pytest.fixture
def second(tmp_path):
    """A second home, whose folder is filled by the test."""
    folder = tmp_path / "second"
    folder.mkdir()
    clew = Clew(folder, forge=forge())
    remove_at_once(clew.home)
    yield clew
    clew.close()


def copied(clew, second) -> None:
    """What `cp -a` makes of a home; the sockets of a living daemon are no files to copy."""
    inbox = clew.home / "inbox"
    clew.until(lambda: not [*inbox.glob(".clew-claimed-*")], "the end of what was accepted")
    shutil.copytree(
        clew.home, second.home, symlinks=True, ignore=shutil.ignore_patterns("*.sock", "*.part")
    )
    second._before = set(children())  # what runs now is not the second home's


def working(clew) -> str:
    goal = clew.start().submit(WORK, "work.md")
    clew.wait("action.finished", goal=goal, count=3)
    return goal


def test_a_copy_beside_the_living_original_waits_for_a_person_and_ends_nothing(clew, second):
    goal = working(clew)
    later = clew.submit(LATER, "later.md")
    agent = clew.agent_pid(goal)
    copied(clew, second)
    second.start()
    views = second.goals()
    assert {views[goal]["status"], views[later]["status"]} == {"blocked"}
    assert f"copied or moved from {clew.home / 'state'}" in views[goal]["reason"]
    report = second.report(goal)
    assert f"clew continue {goal}" in report
    assert f"clew cancel {goal}" in report

    clew.wait("action.finished", since=clew.now(), goal=goal, count=5)
    assert alive(agent)
    assert len(clew.seen("worker.started", goal=goal)) == 1
    assert not second.seen("worker.started")
    assert not second.seen("worker.leftover")
    lines = clew.lines(goal, "trace")
    assert len(lines) == len(set(lines))
    assert second.stop() == 0
    assert second.verified()

    second.start()  # it is known by now, and the goals are still a person's
    assert second.goal(goal)["status"] == "blocked"
    second.clew("cancel", goal)
    assert second.stop() == 0
    assert clew.stop() == 0


def test_a_home_that_is_renamed_is_the_same_home(clew, second):
    later = clew.start().submit(LATER, "later.md")
    assert clew.stop() == 0
    clew.home.rename(second.home)
    second.start()
    assert second.goal(later)["status"] == "queued"
    assert not second.seen("home.other")


NOTE = runbook("echo once >> trace")


def test_a_second_daemon_on_the_same_inbox_refuses_to_start_and_says_who_owns_it(make_clew):
    first = make_clew(name="first").start()
    second = make_clew({"paths.inbox": str(first.home / "inbox")}, name="second")
    said = second.clew("run", code=1)
    assert "inbox/.clew.lock" in said
    assert str(first.daemon.pid) in said
    assert "[paths] inbox" in said
    goal = first.submit(NOTE)
    first.wait("goal.completed", goal=goal)
    assert first.lines(goal, "trace") == ["once"]
