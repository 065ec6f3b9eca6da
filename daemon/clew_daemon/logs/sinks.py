"""Where log lines go: stdout, a rotated file, the journal."""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import json
import os
import select
import socket
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


# The systemd journal as a place for log lines: each is an entry with fields that can be searched for.
#
# Written in the native protocol (systemd's JOURNAL_NATIVE_PROTOCOL.md), since a line on stdout has no priority and no
# fields.
# The message is the JSON line, so that a reader of the journal's text sees what stdout would have.

SOCKET = "/run/systemd/journal/socket"
_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
_FIELDS = ("event", "goal", "epoch", "seq")
_TOO_LONG = (errno.EMSGSIZE, errno.ENOBUFS)


def is_journal(fd: int, env: Mapping[str, str]) -> bool:
    """Return whether the journal is behind `fd`; systemd.exec(5), JOURNAL_STREAM."""
    try:
        found = os.fstat(fd)
    except OSError:
        return False
    here = f"{found.st_dev}:{found.st_ino}"
    return env.get("JOURNAL_STREAM") == here and Path(SOCKET).exists()


def entry(line: bytes) -> bytes:
    """Return a JSON line as a journal entry: message, priority, CLEW_EVENT, CLEW_GOAL and so on."""
    decoded = json.loads(line)
    fields = {
        "MESSAGE": line.decode().rstrip("\n"),
        "PRIORITY": str(_PRIORITIES.get(decoded.get("level"), 6)),
        "SYSLOG_IDENTIFIER": "clew",
    }
    fields |= {f"CLEW_{name.upper()}": str(decoded[name]) for name in _FIELDS if name in decoded}
    return b"".join(_field(name, value.encode()) for name, value in fields.items())


def _field(name: str, value: bytes) -> bytes:
    if b"\n" not in value:
        return f"{name}=".encode() + value + b"\n"
    return f"{name}\n".encode() + len(value).to_bytes(8, "little") + value + b"\n"


class Journal:
    """The journal's socket; a line that it does not take within PATIENCE_MS is dropped."""

    def __init__(self, address: str = SOCKET) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._stalled = False

    def write(self, line: bytes) -> bool:
        """Send a JSON line; return False when it is dropped."""
        data = entry(line)
        try:
            self._send(data)
        except BlockingIOError:
            return not self._stalled and self._wait_and_send(data)
        except OSError:  # the next line connects again
            self.close()
            return False
        self._stalled = False
        return True

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _send(self, data: bytes) -> None:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.connect(self._address)
        try:
            self._socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError as error:
            if error.errno not in _TOO_LONG:
                raise
            _send_by_file(self._socket, data)

    def _wait_and_send(self, data: bytes) -> bool:
        self._stalled = True  # until one has gone: wait only once
        assert self._socket is not None  # noqa: S101 - it has just refused
        waiting = select.poll()
        waiting.register(self._socket, select.POLLOUT)
        if not waiting.poll(PATIENCE_MS):
            return False
        try:
            self._send(data)
        except OSError:
            return False
        self._stalled = False
        return True


def _send_by_file(to: socket.socket, data: bytes) -> None:
    """Send what is too long for a datagram as a sealed memory file."""
    fd = os.memfd_create("clew-log", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.write(fd, data)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        to.sendmsg([], rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    finally:
        os.close(fd)


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
