"""Where log lines go: a stream that may be stalled or closed, and a file that is rotated.

Writing a line never raises and never waits long: after a full disk, a closed pipe or a stalled reader lines are
dropped, and `write` returns False. The content of a line is not known here.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LOOK_EVERY_S = 1.0
PATIENCE_MS = 50
"""How long a reader that has fallen behind is waited for, once, before lines are dropped."""


class Stream:
    """The stream behind `fd`, which stays open and unchanged: journal, pipe, terminal or file."""

    def __init__(self, fd: int) -> None:
        self.is_terminal = os.isatty(fd)
        self._socket: socket.socket | None = None
        self._fd = -1
        self._rest = b""
        self._stalled = False
        with contextlib.suppress(OSError):  # a closed stdout: its number may soon mean the ledger
            self._fd = _own_descriptor(fd)
            if stat.S_ISSOCK(os.fstat(self._fd).st_mode):
                self._socket = socket.socket(fileno=self._fd)

    def write(self, line: bytes) -> bool:
        """Send a line, or keep the rest of it for the next call; return False when it is dropped."""
        if self._fd < 0:
            return False
        try:
            if not self._send_rest():
                return False
            self._rest = line
            self._send_rest()
        except OSError:  # the other end is closed
            self._rest = b""
            return False
        return True

    def close(self) -> None:
        """Send the rest, if possible, and close the stream."""
        with contextlib.suppress(OSError):
            self._send_rest()
        fd, self._fd, self._rest = self._fd, -1, b""
        if self._socket is not None:
            self._socket.close()
        elif fd >= 0:
            os.close(fd)

    def _send_rest(self) -> bool:
        while self._rest:
            try:
                self._rest = self._rest[self._send(self._rest) :]
            except BlockingIOError:
                if self._stalled or not self._wait():
                    return False
        self._stalled = False
        return True

    def _send(self, data: bytes) -> int:
        if self._socket is not None:
            return self._socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        return os.write(self._fd, data)

    def _wait(self) -> bool:
        self._stalled = True  # until a whole line has gone: wait only once
        waiting = select.poll()
        waiting.register(self._fd, select.POLLOUT)
        return bool(waiting.poll(PATIENCE_MS))


def _own_descriptor(fd: int) -> int:
    """Open the file behind `fd` again, not to block; O_NONBLOCK set on `fd` itself would apply to all that share it.

    Sockets cannot be opened so, files need not, and a terminal of someone else's may not: these
    are shared.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{fd}", flags)
    return os.dup(fd)


class RotatedFile:
    """A file that is renamed to `NAME.1`, `NAME.2`, … before it grows over `max_bytes`.

    Where another program moves it away, as logrotate does, the next line begins a new one.
    Raises OSError when it cannot be opened at first; later on nothing.
    """

    def __init__(self, path: Path, *, max_bytes: int, backups: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._backups = backups
        self._torn = False
        self._looked_at = time.monotonic()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd, self._size = _open_at_end(path)

    def write(self, line: bytes) -> bool:
        """Append a line; return False when it is lost."""
        with contextlib.suppress(OSError):
            self._follow()
        if self._size and self._size + len(line) > self._max_bytes:
            with contextlib.suppress(OSError):
                self._rotate()
        if self._torn:
            line = b"\n" + line
        try:
            written = os.write(self._fd, line)
        except OSError:
            return False
        self._size += written
        self._torn = written < len(line)
        return not self._torn

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _follow(self) -> None:
        """Check, at most once a second, whether the file is still at its path; open a new one there if not."""
        now = time.monotonic()
        if now < self._looked_at + LOOK_EVERY_S:
            return
        self._looked_at = now
        mine = os.fstat(self._fd)
        try:
            in_place = os.path.samestat(mine, self._path.stat())
        except FileNotFoundError:
            in_place = False
        if in_place:
            self._size = mine.st_size  # it may have been truncated
        else:
            self._reopen()

    def _reopen(self) -> None:
        old = self._fd
        self._fd, self._size = _open_at_end(self._path)
        self._torn = False
        os.close(old)

    def _rotate(self) -> None:
        self._size = 0  # if it fails, the file may grow by as much again before the next attempt
        if self._backups == 0:
            os.ftruncate(self._fd, 0)
            return
        for count in range(self._backups - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                self._backup(count).replace(self._backup(count + 1))
        self._path.replace(self._backup(1))
        self._reopen()

    def _backup(self, count: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{count}")


def _open_at_end(path: Path) -> tuple[int, int]:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
    fd = os.open(path, flags, 0o600)
    return fd, os.fstat(fd).st_size
