"""What an open ledger keeps locked against other processes; they would empty its index, or move its log, otherwise."""

import subprocess
import sys

import pytest

from clew_shared.ledger.errors import NewEvent
from clew_shared.ledger.ledger import Ledger

INDEX_IN_USE = ("-shm", 128, 1)  # SQLite's UNIX_SHM_DMS: who may have it alone empties the index
FILE_IN_USE = ("", 0x4000_0002, 510)  # SHARED_FIRST: who may have it alone removes the log
TAKE = """
import fcntl, os, sys
path, at, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
try:
    fcntl.lockf(os.open(path, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB, size, at)
except (BlockingIOError, PermissionError):
    sys.exit(3)
"""


def is_locked(path, lock):
    suffix, at, size = lock
    command = [sys.executable, "-c", TAKE, f"{path}{suffix}", str(at), str(size)]
    return subprocess.run(command, timeout=60, check=False).returncode == 3


@pytest.fixture
async def used(tmp_path):
    """A ledger that was opened before, with its log and index."""
    path = tmp_path / "ledger.db"
    first = Ledger.open(path)
    await first.append([NewEvent("a", "noted", b"x")])[1]
    copy = tmp_path / "left" / "ledger.db"  # as a daemon leaves it that is killed
    copy.parent.mkdir()
    for suffix in ("", "-wal", "-shm"):
        (copy.parent / f"ledger.db{suffix}").write_bytes(
            path.with_name(f"ledger.db{suffix}").read_bytes()
        )
    await first.close(60)
    return copy


@pytest.mark.parametrize("lock", [INDEX_IN_USE, FILE_IN_USE], ids=["index", "file"])
async def test_an_open_ledger_holds_its_locks(used, lock):
    """Closing any descriptor of a file lets go of them: another process could empty the index, which is mapped."""
    ledger = Ledger.open(used)
    assert is_locked(used, lock)
    await ledger.close(60)
