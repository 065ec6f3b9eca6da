"""The workspace goes wrong under a running goal: gone, replaced, read-only, full of odd things."""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from surroundings import bystander, foreign, sound, unharmed

AT_FDCWD, RENAME_EXCHANGE = -100, 2


@pytest.fixture
def place(clew):
    """A workspace that is not clew's own."""
    return clew.folder / "ws"


def answering(clew, *acts):
    """Make an agent that does the acts, one a feedback, and says what came of each."""
    clew.agent(
        "worker",
        f"""
        hello()
        say("ready")
        for tool, args in {acts!r}:
            notice("feedback")
            answer = act(tool, **args)
            outcome = answer.get("outcome") or answer
            say([outcome.get("result"), (outcome.get("output") or "")[:200]])
        done()
        """,
    )


def told(clew, goal, count):
    clew.ask("feedback", goal=goal, text="go on")
    return clew.said(goal, count=count + 1)[count]


def exchange(one, other):
    """Let two folders change places, with no moment in between."""
    renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    if renameat2(AT_FDCWD, bytes(one), AT_FDCWD, bytes(other), RENAME_EXCHANGE):
        pytest.skip(f"no exchange of folders here: {os.strerror(ctypes.get_errno())}")


@pytest.mark.long
@pytest.mark.parametrize("mode", ["best_effort", "off"])
def test_a_workspace_that_is_swapped_all_the_time_never_loses_what_is_not_the_goals(
    clew, place, mode
):
    """Between the daemon's look and the command's start there is a moment, whichever it is."""
    clew.configure({"sandbox.mode": mode, "restart.max_restarts": 1000})
    clew.agent(
        "worker",
        """
        hello()
        n = 0
        while True:
            n += 1
            run(f"rm -rf ./*; echo {epoch}.{n} > trace")
        """,
    )
    theirs = place.with_name("theirs")
    theirs.mkdir()
    (theirs / "precious").touch()
    goal = clew.start().submit(foreign("worker", workspace=place))
    clew.until((place / "trace").exists)
    ino, rounds = place.stat().st_ino, 0
    until = time.monotonic() + 20
    while time.monotonic() < until:
        exchange(place, theirs)
        time.sleep(0.002 * (rounds % 7))
        assert [entry.name for entry in place.iterdir()] == ["precious"]
        exchange(place, theirs)
        rounds += 1
        if clew.goal(goal)["status"] == "blocked":
            clew.ask("resume", goal=goal)
        elif rounds % 10 == 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(clew.agent_pid(goal), signal.SIGKILL)  # cells start in the midst of it
    assert place.stat().st_ino == ino
    assert not clew.seen("workspace.accepted", goal=goal)
    assert clew.seen("goal.blocked", goal=goal)
    clew.ask("cancel", goal=goal)
    assert clew.stop() == 0  # reports of all these blocks may still be due
    assert clew.verified()


@pytest.mark.parametrize("instead", [pytest.param("file", marks=pytest.mark.long), "link"])
def test_something_else_in_the_place_of_the_workspace_is_left_to_a_person(clew, place, instead):
    elsewhere = clew.folder / "elsewhere"
    elsewhere.mkdir()
    answering(
        clew, ("run_cmd", {"cmd": "echo 1 >> trace"}), ("run_cmd", {"cmd": "echo 2 >> trace"})
    )
    goal = clew.start().submit(foreign("worker", workspace=place))
    other = bystander(clew)
    clew.said(goal)
    told(clew, goal, 1)
    place.rename(clew.folder / "away")
    place.write_text("mine") if instead == "file" else place.symlink_to(elsewhere)
    clew.ask("feedback", goal=goal, text="go on")
    blocked = clew.wait("goal.blocked", goal=goal)
    assert str(place) in blocked["question"]
    assert "clew continue" in clew.report(goal)
    unharmed(clew, other)
    clew.ask("resume", goal=goal)  # nothing was mended
    clew.wait("goal.blocked", goal=goal, count=2)
    assert not list(elsewhere.iterdir())  # neither the goal's files nor clew's own
    place.unlink()
    (clew.folder / "away").rename(place)
    since = clew.now()
    clew.ask("resume", goal=goal)
    clew.wait("worker.ready", goal=goal, since=since)
    clew.ask("cancel", goal=goal)
    sound(clew, goal)


ODD = """
import os, socket
os.mkfifo("fifo"); os.mkdir("repo"); os.mkfifo(".git")
socket.socket(socket.AF_UNIX).bind("socket")
if os.geteuid() == 0:
    os.mknod("zeros", 0o20666, os.makedev(1, 5))
os.mkdir("closed"); open("closed/file", "w").close(); os.chmod("closed", 0)
open(b"\\xff not utf-8", "w").close()
open("new\\nline \\x1b[31mred", "w").close()
os.truncate(os.open("sparse", os.O_CREAT | os.O_RDWR), 8 << 30)
with open("long", "wb") as file:
    file.write(b"no zero in the head\\n" * 1000)
    file.truncate(64 << 30)
for _ in range(1500):
    os.mkdir("d"); os.chdir("d")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts, and no mode stops root")
def test_a_read_only_workspace_is_told_to_the_agent_and_to_people(clew, place):
    answering(
        clew,
        ("write_file", {"path": "a", "content": "x"}),
        ("run_cmd", {"cmd": "echo 1 >> trace"}),
        ("run_cmd", {"cmd": "true"}),
    )
    place.mkdir()
    mounted = subprocess.run(["mount", "--bind", place, place], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"may not mount here: {mounted.stderr.decode().strip()}")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        goal = clew.start().submit(foreign("worker", workspace=place))
        other = bystander(clew)
        clew.said(goal)
        wrote, ran, harmless = (told(clew, goal, number) for number in (1, 2, 3))
        assert wrote[0] == "error"
        assert "Read-only" in wrote[1]
        assert ran[0] == "failure"
        assert harmless[0] == "success"
        clew.wait("goal.completed", goal=goal)
        unharmed(clew, other)
        assert "read-only" in clew.seen("context.unwritable", goal=goal)[0]["error"]
        sound(clew)
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.long
def test_a_workspace_full_of_odd_things_is_worked_in_like_any_other(clew, place):
    acts = [
        ("run_cmd", {"cmd": "echo 1 >> trace"}),
        ("list_files", {}),
        ("search", {"pattern": "zero"}),
        ("read_file", {"path": "fifo"}),
        ("read_file", {"path": "socket"}),
        ("read_file", {"path": "sparse"}),
        ("read_file", {"path": "long"}),
        ("read_file", {"path": "long", "start_line": 5000}),
        ("write_file", {"path": "fifo", "content": "x"}),
        ("edit_file", {"path": "sparse", "old": "a", "new": "b"}),
        ("run_cmd", {"cmd": "echo 2 >> trace"}),
    ]
    answering(clew, *acts)
    goal = clew.start().submit(foreign("worker", workspace=place))
    other = bystander(clew)
    clew.said(goal)
    subprocess.run([sys.executable, "-c", ODD], cwd=place, check=True)
    said = [told(clew, goal, number) for number in range(1, len(acts) + 1)]
    results = [result for result, _ in said]
    assert results == ["success"] * 3 + ["error"] * 3 + [
        "success", "timeout", "error", "error", "success",
    ]  # fmt: skip
    assert "not a regular file" in said[3][1]
    clew.wait("goal.completed", goal=goal)
    assert not clew.seen("executor.died")
    unharmed(clew, other)
    sound(clew)
    shutil.rmtree(place / "closed", ignore_errors=True)
    subprocess.run(["rm", "-rf", place], check=True)  # deeper than shutil goes
