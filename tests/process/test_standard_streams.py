"""Standard input, output and error closed, or not to be written: commands work, or say so in a line."""

import os
import shlex
import subprocess
from pathlib import Path

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


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_daemon_runs_where_standard_streams_are_closed(clew, closed):
    """What it opens may not get one of their numbers: the next one to print would write into the ledger."""
    script = f'exec "$@" {closed}'
    clew.start(ready=False, under=("sh", "-c", script, "sh"))
    clew.until(clew.answers, "an answer")
    fds = {n: str(Path(f"/proc/{clew.daemon.pid}/fd/{n}").readlink()) for n in (0, 1, 2)}
    for number, redirected in ((0, "<&-"), (1, " >&-"), (2, "2>&-")):
        if redirected in f" {closed}":
            assert fds[number] == "/dev/null"
    goal = clew.home / "inbox" / "goal.md"
    clew.drop("# Fine\n\n## Do\n- [ ] It\n  ```sh\n  echo x\n  ```\n", goal.name)
    clew.until(lambda: [g for g in clew.goals().values() if g["status"] == "completed"], "the goal")
    assert clew.stop() == 0
    assert clew.verified()


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


@pytest.mark.parametrize("args", ["logs -f", "logs -f -n 0"])
def test_following_the_log_ends_when_nothing_reads_it_any_more(clew, args):
    """As with `| head -2`: without a further line in the log there is nothing to write that would fail."""
    log = clew.home / "state" / "clew.log"
    log.parent.mkdir()
    log.write_text('{"event": "daemon.started"}\n' * 3)
    read, write = os.pipe()
    with subprocess.Popen(
        clew.command(*args.split()), stdout=write, stderr=subprocess.PIPE, env=clew.environment()
    ) as process:
        os.close(write)
        if args == "logs -f":
            said = b""
            while said.count(b"\n") < 3:
                said += os.read(read, 1_000)
        os.close(read)
        try:
            assert process.wait(DEADLINE_S) == 1
        finally:
            process.kill()
        assert process.stderr.read() == b""
