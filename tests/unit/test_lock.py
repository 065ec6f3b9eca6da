"""One writer: the lock beside a ledger."""

import subprocess
import sys
from pathlib import Path

import pytest

from clew_shared.ledger.lock import LockHeldError, acquire, holder

HOLD = """
import sys
from pathlib import Path
from clew_shared.ledger.lock import acquire
lock = acquire(Path(sys.argv[1]), role="daemon", socket=Path("/run/user/1/clew/control.sock"))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db.lock"


@pytest.fixture
def held_by():
    """A function that starts another process, which holds a lock until it is killed."""
    started = []

    def start(program: str, path: Path) -> subprocess.Popen:
        command = [sys.executable, "-c", program, str(path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_second_one_is_refused_and_told_who_is_first(path, held_by):
    first = held_by(HOLD, path)
    with pytest.raises(LockHeldError) as refused:
        acquire(path, role="restore")
    assert refused.value.holder.pid == first.pid
    said = str(refused.value)
    assert f"a clew daemon is running (process {first.pid}) and holds {path}" in said
    assert "clew --home DIR" in said


def test_anyone_can_ask_who_holds_it_and_nobody_is_disturbed_by_that(path, held_by):
    assert holder(path) is None
    assert holder(path / "below") is None
    assert not path.exists()
    first = held_by(HOLD, path)
    found = holder(path)
    assert found is not None
    assert (found.pid, found.role, found.is_here) == (first.pid, "daemon", True)
    assert found.socket == Path("/run/user/1/clew/control.sock")
    first.kill()
    first.wait(10)
    assert holder(path) is None
    with acquire(path, role="daemon"):
        assert holder(path) is not None
    assert holder(path) is None
