"""Commands whose streams are closed, full, or read by nobody do what was asked for, without a traceback."""

import subprocess

import pytest
from environments import STREAMS, sh
from main_job import Ways

LONG = pytest.mark.long

WAYS = {
    **STREAMS,
    "all three": "; ".join(STREAMS.values()),
    "room for output": "exec >/dev/full",
    "room for any word": "exec >/dev/full 2>&1",
}


def run(clew, closed, *args):
    return subprocess.run(
        [*sh(closed), *clew.command(*args)],
        capture_output=True,
        text=True,
        timeout=60,
        env=clew.environment(),
        check=False,
    )


@pytest.mark.parametrize(
    "closed",
    [name if name == "stdout" else pytest.param(name, marks=LONG) for name in WAYS],
)
def test_commands_work_without(place, closed):
    clew = place(Ways()).start()
    goal = clew.hand_in()
    clew.works_at(goal, "first", epoch=1)
    for asked, status in (("pause", "waiting"), ("resume", None), ("cancel", "cancelled")):
        said = run(clew, WAYS[closed], asked, goal)
        assert "Traceback" not in said.stdout + said.stderr
        if status:
            clew.until(lambda status=status: clew.shown(goal)["status"] == status, asked)
    for asked in (["status"], ["status", "--json"], ["history", goal], ["verify"], ["logs"]):
        said = run(clew, WAYS[closed], *asked)
        assert "Traceback" not in said.stdout + said.stderr, asked
        assert "Exception ignored" not in said.stderr, asked
    assert clew.stop() == 0


def test_a_goal_cannot_be_read_from_a_closed_stdin_and_that_is_said(place):
    clew = place(Ways())
    said = run(clew, STREAMS["stdin"], "submit", "-")
    assert said.returncode == 1
    assert "stdin" in said.stderr
    assert "Traceback" not in said.stderr
