"""One daemon a home."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clew_daemon.lock import LockHeld, acquire

HOLD = """
import sys
from pathlib import Path
from clew_daemon.lock import acquire
lock = acquire(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "home" / "run"


@pytest.fixture
def holder(run: Path):
    """Another process that holds the lock until it is killed."""
    command = [sys.executable, "-c", HOLD, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_the_lock_says_who_holds_it_in_a_private_folder(run):
    with acquire(run) as lock:
        assert lock.path.read_text() == f"{os.getpid()}\n"
        assert run.stat().st_mode & 0o777 == 0o700


def test_a_second_daemon_is_refused_and_told_who_is_first(run, holder):
    with pytest.raises(LockHeld) as held:
        acquire(run)
    assert held.value.pid == holder.pid
    assert held.value.path == run / "clew.pid"
    assert f"process {holder.pid}" in str(held.value)
    assert str(run / "clew.pid") in str(held.value)


def test_a_second_lock_in_the_same_process_is_refused_too(run):
    with acquire(run), pytest.raises(LockHeld):
        acquire(run)


def test_the_lock_of_a_killed_daemon_is_free(run, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait(10)
    with acquire(run):
        assert (run / "clew.pid").read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize("text", ["", "1\n", "rubbish", "9" * 5000])
def test_a_stale_file_is_no_obstacle(run, text):
    run.mkdir(parents=True)
    (run / "clew.pid").write_text(text)
    with acquire(run) as lock:
        assert lock.path.read_text() == f"{os.getpid()}\n"


def test_a_released_lock_can_be_taken_again_and_released_twice(run):
    for _ in range(2):
        lock = acquire(run)
        lock.release()
        lock.release()


def test_a_folder_that_others_could_read_is_closed_to_them(run):
    run.mkdir(parents=True, mode=0o755)
    with acquire(run):
        assert run.stat().st_mode & 0o777 == 0o700


def test_a_holder_that_has_not_said_its_number_is_still_a_holder(run, holder):
    (run / "clew.pid").write_text("")
    with pytest.raises(LockHeld, match="has not said its number") as held:
        acquire(run)
    assert held.value.pid is None
