"""One daemon a home: a lock that the kernel lets go when its holder dies, however it dies.

The pid in the file is only for people to read: a stale one means nothing, the lock does.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING, Self

from clew_daemon.folders import make_private

if TYPE_CHECKING:
    from pathlib import Path

PID_FILE = "clew.pid"
MAX_ATTEMPTS = 100


class LockHeld(Exception):  # noqa: N818 - it says what is so, and the message what to do
    """Another daemon holds the lock at `path`; `pid` is its process, None if it does not say."""

    def __init__(self, pid: int | None, path: Path) -> None:
        self.pid = pid
        self.path = path
        holder = f"process {pid}" if pid else "a process that has not said its number yet"
        super().__init__(
            f"another clew daemon runs on this home: {holder} holds {path}. "
            "Stop it first, or use another home (clew --home DIR)."
        )


class Lock:
    """Held from `acquire` until `release`, or until the process is gone."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self.path = path

    def release(self) -> None:
        """Let go; legal twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.ftruncate(fd, 0)  # not unlinked: another one may be waiting at this very file
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def acquire(run: Path) -> Lock:
    """Lock the folder `run`, which is made (mode 0700) if absent, for this daemon.

    Raises LockHeld when another process has it, FolderError or OSError when the folder cannot be used.
    """
    make_private(run)
    path = run / PID_FILE
    for _ in range(MAX_ATTEMPTS):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(fd, path):
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
                return Lock(fd, path)
        except BlockingIOError:
            pid = _pid_in(fd)
            os.close(fd)
            raise LockHeld(pid, path) from None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # the file was replaced between open and lock: the new one counts
    raise LockHeld(None, path)


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _pid_in(fd: int) -> int | None:
    text = os.pread(fd, 32, 0).strip()
    return int(text) if text.isdigit() else None
