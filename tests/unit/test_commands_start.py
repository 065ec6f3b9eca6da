"""Commands that cannot be started: no process to be had, and a starter that cannot live."""

import subprocess
import sys

import pytest

HANDS = """
import errno, os, socket, sys
from clew_worker.executor import commands
from clew_worker.executor.launcher import CommandError
from clew_worker.executor.wire import Wire
from clew_worker.sandbox import landlock

ours, theirs = socket.socketpair()
root = os.open("/", os.O_PATH)
hands = commands.Commands(Wire(ours), root, rules={rules}, open_files=256)

def run():
    try:
        return hands.run(["echo", "ran"], 60.0, 1000, {{}}).output.strip()
    except CommandError as error:
        return str(error)

def count_open():
    return len(os.listdir("/proc/self/fd"))
"""

FORK_FAILS = """
forks, real = 0, os.fork

def fork():
    global forks
    forks += 1
    if forks == {number}:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return real()

os.fork = fork
"""

REFUSED = "cannot start the command: Resource temporarily unavailable"


def lines_of(script, **values):
    """What a script prints with hands of its own: they adopt and reap whatever there is."""
    ran = subprocess.run(
        [sys.executable, "-c", (HANDS + script).format(**values)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stderr == ""
    return ran.stdout.splitlines()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        pytest.param(1, [REFUSED, "ran", "ran"], id="the executor's"),
        pytest.param(2, [REFUSED, "ran", "ran"], id="the starter's"),
        pytest.param(3, [REFUSED, REFUSED, "ran"], id="the one in between, then the starter's"),
    ],
)
def test_a_fork_that_fails_is_told_and_the_next_command_runs(number, said):
    script = FORK_FAILS + "for _ in range(3): print(run())"
    assert lines_of(script, number=number, rules=-1) == said


def test_a_command_that_cannot_be_started_leaves_nothing_open():
    script = FORK_FAILS + "before = count_open(); run(); print(count_open() - before)"
    assert lines_of(script, number=1, rules=-1) == ["0"]
