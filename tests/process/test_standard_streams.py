"""Standard input, output and error closed, or not to be written: commands work, or say so in a line."""

import shlex
import subprocess

import pytest
from harness import DEADLINE_S

pytestmark = pytest.mark.cold


def shell(clew, text):
    """Run a line of sh in which `clew` is the command line."""
    command = shlex.join(clew.command())
    env = clew.environment() | {"PYTHONUNBUFFERED": ""}
    return subprocess.run(
        ["sh", "-c", text.replace("clew", command, 1)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env=env,
        check=False,
    )


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_command_works_where_standard_streams_are_closed(clew, closed):
    done = shell(clew, f"clew status {closed}")
    assert (done.returncode, done.stderr) == (0, "")
    assert ("no goals" in done.stdout) is (">&-" not in closed.replace("2>&-", ""))
    assert shell(clew, f"clew cancel x {closed}").returncode == 3


PRINTING = ("status", "status --json", "config", "--help", "playbook export")


@pytest.mark.parametrize("args", PRINTING)
def test_output_that_cannot_be_written_is_an_error_without_a_traceback(clew, args):
    done = shell(clew, f"clew {args} > /dev/full")
    assert done.returncode == 1
    assert done.stderr == "clew: the output cannot be written: No space left on device\n"


def test_an_error_that_cannot_be_printed_is_still_an_exit_code(clew):
    assert shell(clew, "clew cancel x 2> /dev/full").returncode == 3


def test_a_reader_that_goes_away_is_no_error_to_speak_of(clew):
    command = clew.command("config")
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clew.environment() | {"PYTHONUNBUFFERED": ""},
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(DEADLINE_S) == 1
