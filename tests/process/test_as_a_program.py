"""clew among programs: titles in `ps`, standard streams that are closed, and starts where something is missing."""

import os
import pwd
import shlex
import subprocess

import pytest
from harness import DEADLINE_S, runbook
from of_proc import children, title

pytestmark = pytest.mark.cold


def below(pid):
    return [one for child in children(pid) for one in (child, *below(child))]


def titles(daemon):
    return {title(daemon): daemon} | {title(pid): pid for pid in below(daemon)}


def test_each_process_says_what_it_is_and_the_next_worker_its_epoch(clew, tmp_path):
    clew.start()
    workspace = tmp_path / "work"
    wait = "echo begun > begun; sleep 600"
    goal = clew.submit(runbook(wait, workspace=workspace, on_interrupt="retry"))
    clew.until((workspace / "begun").exists, "the action")
    clew.until(lambda: "sleep 600" in titles(clew.daemon.pid), "the command")
    found = titles(clew.daemon.pid)
    first = {"clew: daemon", "clew: nursery", "clew: guard"}
    first |= {f"clew: agent {goal} epoch 1", f"clew: executor {goal} epoch 1"}
    assert first <= set(found)
    (workspace / "begun").unlink()
    os.kill(found[f"clew: agent {goal} epoch 1"], 9)
    clew.wait("worker.ready", epoch=2)
    second = f"clew: executor {goal} epoch 2"
    clew.until(lambda: second in titles(clew.daemon.pid), "the next executor")
    now = set(titles(clew.daemon.pid))
    assert f"clew: agent {goal} epoch 2" in now
    assert not {one for one in now if one.endswith("epoch 1")}


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


root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@root_only
@pytest.mark.parametrize("folder", ["state", "run"])
def test_root_on_a_users_home_is_told_to_run_clew_as_that_user(clew, folder):
    """`sudo clew run` said "remove it" of the folder that holds the ledger."""
    user = next((one for one in pwd.getpwall() if one.pw_uid not in (0, os.getuid())), None)
    if user is None:
        pytest.skip("no other user here")
    (clew.home / folder).mkdir(mode=0o700)
    os.chown(clew.home / folder, user.pw_uid, user.pw_gid)
    said = clew.clew("run", code=78)
    assert f"{clew.home / folder} belongs to user {user.pw_name} ({user.pw_uid})" in said
    assert f"sudo -u {user.pw_name} clew run" in said
    assert "remove" not in said
    assert (clew.home / folder).stat().st_uid == user.pw_uid


def test_without_proc_the_daemon_says_what_is_missing(clew):
    script = 'umount -l /proc && exec "$@"'
    under = ("unshare", "--mount", "sh", "-c", script, "sh")
    if subprocess.run([*under, "true"], capture_output=True, check=False).returncode:
        pytest.skip("/proc cannot be unmounted here")
    assert "/proc is not mounted" in clew.clew("run", code=78, under=under)
    said = clew.clew("doctor", code=None, under=under)
    assert "/proc is not mounted" in said
    assert "Traceback" not in said


# -- the log under it
