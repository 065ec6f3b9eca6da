"""The daemon in a control group that is delegated to it: each worker has one of its own, and ends with it."""

import os
import signal
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from harness import PATCHED, runbook, until
from of_proc import children

from clew_daemon.processes import cgroups

DEADLINE_S = 60
ENTER = 'echo $$ > "$0"/cgroup.procs && exec "$@"'
GUARDED = """
from functools import partial
from clew_daemon.processes import cell_rules
cell_rules.CellSpec = partial(cell_rules.CellSpec, isolation="guard")
"""
"""A daemon that may not have PID namespaces."""


ESCAPE = "(setsid sh -c 'setsid sleep 12345 & echo $! > escaped' >/dev/null 2>&1 &)"
WAIT = "touch begun; until test -e go; do sleep 0.02; done"


def mounted():
    lines = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return next((Path(words[1]) for words in lines if words[2] == "cgroup2"), None)


@pytest.fixture
def own():
    """A control group that is delegated as systemd does it; it must be empty in the end."""
    root = mounted()
    if root is None or not os.access(root, os.W_OK) or os.geteuid() != 0:
        pytest.skip("a control group can be made by root alone, and where cgroup2 is mounted")
    group = root / f"clew-test-{os.getpid()}"
    group.mkdir()
    if not (group / "cgroup.kill").exists():
        group.rmdir()
        pytest.skip("this kernel has no cgroup.kill")
    os.setxattr(group, "user.delegate", b"1")
    yield group
    cgroups.CellGroup(group).kill()
    until(cgroups.CellGroup(group).remove, "an empty group", cgroups.CellGroup(group).members)


@pytest.fixture
def start(clew, own):
    """Start the daemon in the delegated group, perhaps with something of it patched."""

    def starting(patch=""):
        patched = (sys.executable, "-c", PATCHED.format(patch=patch)) if patch else ()
        return clew.start(under=("sh", "-c", ENTER, str(own), *patched))

    return starting


def groups(own):
    """Every group beneath, with its processes; one that ends meanwhile is left out."""
    found = {}
    for folder, _, _ in islice(os.walk(own), 1, None):
        with suppress(OSError):
            procs = Path(folder, "cgroup.procs").read_text()
            found[os.path.relpath(folder, own)] = procs.split()
    return found


def begun(clew, goal):
    clew.until((clew.workspace(goal) / "begun").exists, "the action")


def test_each_worker_has_a_group_and_the_daemon_a_leaf(clew, own, start):
    start()
    goal = clew.submit(runbook(WAIT, on_interrupt="retry"))
    begun(clew, goal)
    (base,) = [path for path in own.iterdir() if path.is_dir()]
    found = groups(base)
    assert str(clew.daemon.pid) in found["daemon"]
    worker = f"worker-{goal}-1"
    assert str(clew.agent_pid(goal)) in found[f"{worker}/agent-1"]
    assert str(clew.executor_pid(goal)) in found[f"{worker}/executor-2"]
    assert found[worker] == []
    assert not (own / "cgroup.procs").read_text()
    assert clew.ask("ping")["cgroup"]["path"] == str(base)
    (clew.workspace(goal) / "go").touch()
    clew.wait("goal.completed", goal=goal)
    clew.until(lambda: set(groups(base)) == {"daemon"}, "the end of its group")


def test_what_is_left_of_an_epoch_ends_with_its_group(clew, own, start):
    start(GUARDED)
    goal = clew.submit(runbook(f"{ESCAPE}; {WAIT}", on_interrupt="retry"))
    begun(clew, goal)
    escaped = clew.until(lambda: clew.lines(goal, "escaped"), "the child that gets away")
    fd = os.pidfd_open(int(escaped[0]))
    try:
        clew.kill_agent(goal)
        clew.wait("worker.restarting", goal=goal)
        with pytest.raises(ProcessLookupError):
            signal.pidfd_send_signal(fd, 0)
    finally:
        os.close(fd)


def test_a_child_that_lost_guard_and_daemon_at_once_is_ended_at_the_next_start(clew, own, start):
    start(GUARDED)
    goal = clew.submit(runbook(f"{ESCAPE}; {WAIT}", on_interrupt="retry"))
    begun(clew, goal)
    escaped = int(clew.until(lambda: clew.lines(goal, "escaped"), "the child that gets away")[0])
    (leaf,) = own.rglob("executor-*")
    assert escaped in cgroups.CellGroup(leaf).members()
    payloads = {clew.agent_pid(goal), clew.executor_pid(goal)}
    guards = set(children(clew.daemon.pid))  # and the nursery
    clew.daemon.send_signal(signal.SIGSTOP)  # it sees nothing of what follows
    for pid in guards:
        os.kill(pid, signal.SIGKILL)
    clew.daemon.kill()
    clew.daemon.wait(DEADLINE_S)
    clew.until(
        lambda: not (payloads | guards) & set(cgroups.CellGroup(own).members()),
        "the end of the others",
    )
    assert escaped in cgroups.CellGroup(own).members()
    start()
    assert escaped in clew.wait("worker.leftover")["pids"]
    assert escaped not in cgroups.CellGroup(own).members()
    (clew.workspace(goal) / "go").touch()
    clew.wait("goal.completed", goal=goal)
