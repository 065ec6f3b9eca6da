"""One writer: the lock beside a ledger."""

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clew_shared.ledger import Ledger, lock
from clew_shared.ledger.lock import (
    LockError,
    LockHeldError,
    acquire,
    beside,
    holder,
)

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


def elsewhere(path: Path, **said: object) -> None:
    """Let the file of a held lock say other things about its holder."""
    path.write_text(json.dumps(json.loads(path.read_text()) | said) + "\n")


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


def test_of_a_holder_elsewhere_no_number_is_told_that_means_nothing_here(path, held_by):
    first = held_by(HOLD, path)
    elsewhere(path, pid_namespace=1)
    with pytest.raises(LockHeldError, match="in another container") as refused:
        acquire(path, role="daemon")
    assert str(first.pid) not in str(refused.value).replace(str(path), "")
    elsewhere(path, host="ship")
    with pytest.raises(LockHeldError, match="host, 'ship'"):
        acquire(path, role="daemon")


def test_a_link_a_folder_and_a_pipe_are_not_taken_for_the_file(tmp_path):
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "link").symlink_to("mine")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "folder", "pipe"):
        with pytest.raises(LockError, match="must be a plain file"):
            acquire(tmp_path / name, role="daemon")
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_file_that_is_replaced_while_it_is_taken_does_not_count(path, monkeypatch):
    take, calls = lock._take, []

    def replaced(fd, path):
        if not calls:
            path.unlink()
            path.touch()
        calls.append(fd)
        take(fd, path)

    monkeypatch.setattr(lock, "_take", replaced)
    with acquire(path, role="daemon"):
        assert holder(path) is not None


@pytest.mark.parametrize("number", ["ENOLCK", "EOPNOTSUPP", "ENOSYS", "EINVAL"])
def test_where_the_file_system_has_no_locks_it_is_refused_with_what_to_do(
    path, number, monkeypatch
):
    def refuse(*_):
        raise OSError(getattr(errno, number), "no locks")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    with pytest.raises(LockError, match=r"does not support locks.*local disk"):
        acquire(path, role="daemon")
    assert holder(path) is None if path.exists() else True


def test_where_locks_exclude_nobody_it_is_refused_too(path, monkeypatch):
    unlocked = lock._FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)
    monkeypatch.setattr(fcntl, "fcntl", lambda *_: unlocked)
    with pytest.raises(LockError, match=r"can be taken again.*local disk"):
        acquire(path, role="daemon")


# -- who opens a ledger for writing holds its lock


async def test_a_lock_that_is_passed_on_stays_with_its_owner(tmp_path):
    path = tmp_path / "ledger.db"
    with acquire(beside(path), role="daemon") as taken:
        await Ledger.open(path, lock=taken).close(10)
        with pytest.raises(LockHeldError):
            Ledger.open(path)
    with pytest.raises(ValueError, match="not the held lock"):
        Ledger.open(path, lock=taken)


async def test_a_ledger_that_cannot_be_opened_leaves_its_lock_free(tmp_path):
    path = tmp_path / "ledger.db"
    path.write_bytes(b"no ledger" * 1000)
    for _ in range(2):
        with pytest.raises(Exception, match="damaged"):
            Ledger.open(path)
    assert holder(beside(path)) is None
