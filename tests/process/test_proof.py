"""Proofs at the worst moment: killed half-way, with an agent that could write meanwhile, and with hostile checks."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from bad_disk import small
from bench import fakes

from clew_daemon.processes import children
from clew_daemon.session.proving import stopped

SLOW = 'sleep 2; [ "$(sh greet.sh)" = hello ]\n'
AGENT = """\
import pathlib
hello()
{acts}
answer = call('finish', success=True, summary='done')
say(answer.get('proof', {{}}).get('label'))
if not answer['accepted']: call('ask', question='what now?')
"""
CHEAT = "run('echo true > run_tests.sh')"


@pytest.fixture
def begun(clew, tmp_path):
    """A function that begins a goal whose agent cheats; gives the goal and its workspace."""

    def begin(acts=CHEAT, *, test=SLOW, folder="project"):
        folder = tmp_path / folder
        folder.mkdir()
        (folder / "greet.sh").write_text("echo hullo\n")
        (folder / "run_tests.sh").write_text(test)
        clew.agent("worker", AGENT.format(acts=acts))
        if not clew.daemon:
            clew.start()
        front = f"agent: worker\nworkspace: {folder}\nchecks: {{it: sh run_tests.sh}}"
        return clew.submit(f"---\n{front}\n---\n# Greet\n", f"{folder.name}.md"), folder

    return begin


def view_of(clew, goal):
    return clew.home / "state" / "goals" / goal / "view"


def in_view(clew, goal):
    """Wait until the old test stands in the view, where it runs."""
    upper = view_of(clew, goal) / "upper" / "run_tests.sh"
    copy = view_of(clew, goal) / "copy" / "run_tests.sh"
    clew.until(lambda: upper.exists() or copy.exists(), "the view")


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def kill(clew, goal, who):
    """Kill the daemon, which is started again, or a process of its worker."""
    if who == "daemon":
        clew.kill()
        clew.start()
    elif who == "agent":
        clew.kill_agent(goal)
    else:
        os.kill(clew.executor_pid(goal), signal.SIGKILL)


def as_before(clew, goal, folder, before, which=""):
    """Wait until the goal is blocked, and see that nothing of the proof is left."""
    clew.wait("goal.blocked", goal=goal)
    assert content(folder) == before, which
    assert not view_of(clew, goal).exists(), which
    assert str(folder) not in Path("/proc/mounts").read_text()
    assert clew.goal(goal)["proof"]["label"] in ("changed_tests", "unknown")


@pytest.mark.parametrize("killed", ["daemon", "executor", "agent"])
def test_a_proof_that_is_cut_off_is_made_anew_and_leaves_nothing(clew, begun, killed):
    goal, folder = begun()
    in_view(clew, goal)
    before = content(folder)
    kill(clew, goal, killed)
    as_before(clew, goal, folder, before)
    assert clew.goal(goal)["proof"]["label"] == "changed_tests"
    assert (folder / "run_tests.sh").read_text() == "true\n"


HOSTILE = {
    "writes": "echo x > greet.sh; rm -f run_tests.sh.bak; rm -rf .agent_context",
    "forks and stays": "setsid nohup sh -c 'while echo x >> greet.sh; do sleep 0.02; done' > /dev/null 2>&1 &",
    "locks": "mkdir -p locked/in; chmod 000 locked/in locked",
    "fills the disk": "cat /dev/zero > greet.sh",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_check_that_does_harm_in_the_view_changes_nothing_outside(clew, begun, what):
    test = f"if [ -e cheated ]; then {HOSTILE[what]}; fi; [ -e never ]\n"
    with small(clew.home / "state", "40m") if "disk" in what else contextlib.nullcontext():
        goal, folder = begun("run('touch cheated; echo true > run_tests.sh')", test=test)
        clew.wait("goal.blocked", goal=goal)
        before = content(folder)
        assert clew.goal(goal)["proof"]["label"] == "changed_tests"
        assert before["greet.sh"] == b"echo hullo\n"
        assert not (folder / "locked").exists()
        assert not view_of(clew, goal).exists()
        assert not [one for one in psutil.process_iter() if "greet.sh; do" in str(command(one))]
        assert content(folder) == before
        clew.stop()


def command(process):
    with contextlib.suppress(psutil.Error):
        return process.cmdline()


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("killed", ["daemon", "executor", "agent"])
def test_killed_at_any_moment_of_a_proof_the_workspace_is_as_it_was(clew, begun, killed):
    chance = random.Random(seed := int(os.environ["SEED"]))
    for number in range(int(os.environ.get("KILLS", "100"))):
        test = 'sleep 0.2; [ "$(sh greet.sh)" = hello ]\n'
        goal, folder = begun(test=test, folder=f"project-{number}")
        clew.wait("check.before", goal=goal)
        clew.until(lambda at=folder: content(at)["run_tests.sh"] == b"true\n", "the fake")
        before = content(folder)
        time.sleep(chance.uniform(0.0, 0.8))
        # a worker may have ended by itself
        gone = () if killed == "daemon" else (OSError, LookupError, AssertionError)
        with contextlib.suppress(*gone):
            kill(clew, goal, killed)
        as_before(clew, goal, folder, before, f"SEED={seed}, kill {number}")


# -- fakes and honest finishes of our own, through a daemon: the labels are those that docs/pro
CASES = [
    json.loads(line) for line in Path(fakes.__file__).with_suffix(".jsonl").read_text().splitlines()
]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_case_ends_with_a_label_that_is_right(monkeypatch):
    monkeypatch.setenv("FAKES_PY", sys.executable)
    found = {name: got.partition(" ")[0] for name, got in fakes.run(CASES, "auto").items()}
    wrong = {one["id"] for one in CASES if found[one["id"]] not in (*one["expect"], "skipped")}
    assert not wrong


def test_where_the_kernel_lists_no_children_they_are_found_and_stopped_all_the_same(monkeypatch):
    shell = ("sh", "-c", "sleep 60 & echo up; wait")
    with subprocess.Popen(shell, stdout=subprocess.PIPE, start_new_session=True) as agent:
        agent.stdout.readline()
        try:
            (below,) = psutil.Process(agent.pid).children()
            monkeypatch.setattr(children, "HAS_LISTS", False)
            monkeypatch.delattr(Path, "read_text")
            assert children.tree(agent.pid) == [agent.pid, below.pid]
            cell = SimpleNamespace(pid=agent.pid, guard=agent)
            epoch = SimpleNamespace(own_tools=True, cells=[cell])
            with stopped(epoch):
                for pid in (agent.pid, below.pid):
                    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
                        time.sleep(0.01)
        finally:
            os.killpg(agent.pid, signal.SIGKILL)
