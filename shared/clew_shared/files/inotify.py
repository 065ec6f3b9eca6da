"""A queue of the kernel's file events (inotify), which Python 3.11 does not wrap: for the executor and the inbox."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import NamedTuple

MODIFY, ATTRIB, CLOSE_WRITE = 0x02, 0x04, 0x08
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
UNMOUNT, OVERFLOW, IGNORED = 0x2000, 0x4000, 0x8000
ONLYDIR = 0x0100_0000

EVENTS_BYTES_MAX = 16 * 1024 * 1024
"""How much is read at one time; a queue that fills faster has overflowed."""

_CHUNK = 1024 * 1024
_EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class Event(NamedTuple):
    """What happened to `name` in the folder of a watch, "" for the folder itself; `mask` has bits of this module."""

    watch: int
    mask: int
    name: str


class Inotify:
    """An open queue, readable (`fileno`) when there are events; raises OSError where the kernel gives none."""

    def __init__(self) -> None:
        self._fd = _checked(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK), "inotify_init1")

    def fileno(self) -> int:
        """Return the descriptor of the queue."""
        return self._fd

    def close(self) -> None:
        """Close the queue, and all its watches with it."""
        os.close(self._fd)

    def add(self, path: str, mask: int) -> int:
        """Watch a path; return the number of the watch, the same one for the same file or folder. Raises OSError."""
        name = ctypes.c_char_p(os.fsencode(path))
        return _checked(_libc.inotify_add_watch(self._fd, name, ctypes.c_uint32(mask)), path)

    def remove(self, watch: int) -> None:
        """Remove a watch, which may be gone already."""
        _libc.inotify_rm_watch(self._fd, watch)

    def read(self) -> list[Event] | None:
        """Take the events that have come; None where some were lost. Does not block."""
        found: list[Event] = []
        taken = 0
        while data := self._taken():
            taken += len(data)
            if taken > EVENTS_BYTES_MAX:
                return None
            at = 0
            while at < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size + length
                if mask & OVERFLOW:
                    return None
                name = data[at - length : at].rstrip(b"\0")
                found.append(Event(watch, mask, os.fsdecode(name)))
        return found

    def _taken(self) -> bytes:
        try:
            return os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return b""


def _checked(value: int, what: str) -> int:
    if value < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
    return value
