"""Where log lines go: stdout, and a rotated file. Neither ever blocks the daemon on a reader, or raises."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import stat
from logging.handlers import RotatingFileHandler
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from io import TextIOWrapper
    from pathlib import Path

PATIENCE_MS = 50
"""How long a reader that has fallen behind is waited for, once, before lines are dropped."""


class Stream:
    """The stream behind `fd`, which stays open and unchanged: a pipe, the journal's socket, a terminal or a file."""

    def __init__(self, fd: int) -> None:
        self.is_terminal = os.isatty(fd)
        self._fd = -1
        self._rest = b""
        self._stalled = False
        self._room = select.poll()
        with contextlib.suppress(OSError):  # a closed stdout: its number may soon mean the ledger
            self._fd = _own_descriptor(fd)
            self._room.register(self._fd, select.POLLOUT)

    def write(self, line: str) -> bool:
        """Send a line, or keep the rest of it for the next call; return False when it is dropped."""
        try:
            if not self._send_rest():
                return False
            self._rest = line.encode("utf-8", "backslashreplace")
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
        if fd >= 0:
            os.close(fd)

    def _send_rest(self) -> bool:
        if self._fd < 0:
            return False
        while self._rest:
            if not self._room.poll(0 if self._stalled else PATIENCE_MS):
                self._stalled = True  # until it takes something: wait only once
                return False
            try:
                self._rest = self._rest[os.write(self._fd, self._rest[: select.PIPE_BUF]) :]
            except BlockingIOError:
                self._stalled = True
                return False
            self._stalled = False
        return True


class RotatedFile(RotatingFileHandler):
    """A file that is renamed to `NAME.1`, `NAME.2`, … before it grows over `max_bytes`; OSError at first only."""

    def __init__(self, path: Path, *, max_bytes: int, backups: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._failed = False
        self._line = logging.makeLogRecord({})
        super().__init__(path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8")

    def write(self, line: str) -> bool:
        """Append a line; return False when it is lost."""
        self._failed = False
        if not os.path.exists(self.baseFilename):  # noqa: PTH110 - moved away, as logrotate does
            self.close()  # the next line opens a new one
        self._line.msg = line.rstrip("\n")
        self.emit(self._line)
        return not self._failed

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - the base's
        self._failed = True

    def doRollover(self) -> None:  # noqa: N802 - the name of the base
        if self.backupCount == 0 and self.stream is not None:
            self.stream.truncate(0)
        super().doRollover()

    def _open(self) -> TextIOWrapper:
        file: IO[Any] = open(  # noqa: SIM115 - the base closes it
            self.baseFilename,
            self.mode,
            encoding="utf-8",
            errors="backslashreplace",
            opener=lambda path, flags: os.open(path, flags | os.O_NOCTTY | os.O_NONBLOCK, 0o600),
        )
        return file  # type: ignore[return-value]


def _own_descriptor(fd: int) -> int:
    """Open the file behind `fd` again, not to block; O_NONBLOCK set on `fd` itself would apply to all that share it.

    Sockets cannot be opened so, files need not, and a terminal of someone else's may not: these are shared, and
    written to only as far as they take it.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{fd}", flags)
    return os.dup(fd)
