"""Descriptors, processes and memory run out: goals wait and come back, and people are told why."""

import contextlib
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from of_proc import nursery

from surroundings import NoDescriptors, bystander, foreign, runbook, sound, unharmed

STEPS = [f"echo {n} >> trace" for n in range(3)]
SLOW = {"restart.backoff_initial_s": 0.2, "restart.backoff_max_s": 0.5}


def worker(clew):
    """Make an agent that does one thing when it is told to."""
    return clew.agent(
        "worker",
        """
        hello()
        say("here")
        notice("feedback")
        say(run("echo 1 >> trace")["outcome"])
        done()
        """,
    )


def waits_for_resources(clew, goal, why):
    """Wait until a goal waits, and see that it is said why, to everyone who might ask."""
    reason = clew.wait("goal.waiting", goal=goal)["reason"]
    assert "out of resources" in reason
    assert why in reason.lower()
    assert not clew.seen("worker.crashed", goal=goal)


@pytest.mark.parametrize(
    "spare", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 8))]
)
def test_a_daemon_without_descriptors_goes_on_when_there_are_some(make_clew, spare):
    clew = make_clew(SLOW)
    worker(clew)
    at_work = clew.start().submit(foreign("worker"), "work.md")
    idle = clew.submit(foreign("worker"), "idle.md")
    clew.said(at_work)
    clew.said(idle)
    with NoDescriptors(clew.daemon.pid, spare):
        clew.drop(runbook(*STEPS), "late.md")
        if spare == 0:
            clew.wait("inbox.unusable", error="Too many open files")
            assert not clew.answers()  # the call is ended at once: nobody waits for a deadline
        else:
            clew.kill_agent(idle)
            clew.wait("worker.exited", goal=idle)
    late = clew.wait("goal.accepted", file="late.md")["goal"]
    clew.wait("goal.completed", goal=late)
    for goal in (idle, at_work):
        clew.until(lambda goal=goal: clew.goal(goal)["status"] == "in_progress", "its return")
        clew.ask("feedback", goal=goal, text="go on")
        clew.wait("goal.completed", goal=goal)
    sound(clew)


@pytest.mark.parametrize("limit", ["NOFILE", pytest.param("AS", marks=pytest.mark.long)])
def test_an_executor_without_resources_tells_the_agent_and_works_again(clew, limit):
    clew.agent(
        "worker",
        """
        hello()
        run("echo 0 >> trace")
        say("here")
        notice("feedback")
        outcome = run("echo 1 >> trace")["outcome"]
        say([outcome["result"], outcome["output"]])
        notice("feedback")
        say(run("echo 2 >> trace")["outcome"]["result"])
        done()
        """,
    )
    goal = clew.start().submit(foreign("worker"))
    other = bystander(clew)
    clew.said(goal)
    pid = clew.executor_pid(goal)
    kind = getattr(resource, f"RLIMIT_{limit}")
    before = resource.prlimit(pid, kind)
    starters = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    processes = [pid, *(map(int, starters) if limit == "AS" else ())]  # commands are forks of these
    if not os.access(f"/proc/{pid}/fd", os.R_OK):
        pytest.skip("needs root, to see what is open in a cell")
    with NoDescriptors(pid) if limit == "NOFILE" else contextlib.nullcontext():
        if limit == "AS":
            for one in processes:
                resource.prlimit(one, kind, (1 << 20, before[1]))
        clew.ask("feedback", goal=goal, text="go on")
        result, output = clew.said(goal, count=2)[1]
    for one in processes:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(one, kind, before)
    told = ("error", "interrupted", *(("failure",) if limit == "AS" else ()))  # of the shell, too
    assert result in told, output
    assert limit == "AS" or "Too many open files" in output
    clew.ask("feedback", goal=goal, text="go on")
    clew.wait("goal.completed", goal=goal)
    assert clew.said(goal, count=3)[2] == "success"
    assert clew.lines(goal, "trace") in (["0", "2"], ["0", "1", "2"])
    unharmed(clew, other)
    sound(clew)


LIMIT = """
import resource, sys
for pid in sys.argv[2:]:
    hard = resource.prlimit(int(pid), resource.RLIMIT_NPROC)[1]
    soft = hard if sys.argv[1] == "-1" else int(sys.argv[1])
    resource.prlimit(int(pid), resource.RLIMIT_NPROC, (soft, hard))
"""


def limited(under, pids, processes):
    """Let some processes of a user have so many, -1 for as many as before; as that user, who always may."""
    command = [*under, sys.executable, "-c", LIMIT, str(processes), *map(str, pids)]
    subprocess.run(command, check=True)


def test_without_processes_to_be_had_goals_wait_and_come_back(nobodys_clew):
    clew, under = nobodys_clew
    clew.configure({**SLOW, "daemon.max_workers": 3})
    clew.start(under=under)
    clew.drop("", "empty.md")
    clew.wait("goal.rejected")  # now the inbox has all its threads
    pids = (clew.daemon.pid, nursery(clew.daemon.pid) or pytest.fail("no nursery"))
    limited(under, pids, 1)
    clew.drop(runbook(*STEPS))
    goal = clew.wait("goal.accepted")["goal"]
    waits_for_resources(clew, goal, "resource temporarily unavailable")
    assert clew.answers()
    limited(under, pids, -1)
    clew.wait("goal.completed", goal=goal)
    assert clew.lines(goal, "trace") == ["0", "1", "2"]
    sound(clew)
