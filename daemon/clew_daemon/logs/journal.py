"""The systemd journal as a place for log lines: each is an entry with fields that can be searched for.

Written in the native protocol (systemd's JOURNAL_NATIVE_PROTOCOL.md), since a line on stdout has no priority and no
fields.
The message is the JSON line, so that a reader of the journal's text sees what stdout would have.
"""

from __future__ import annotations

import array
import errno
import fcntl
import json
import os
import select
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from clew_daemon.logs.sinks import PATIENCE_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

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
