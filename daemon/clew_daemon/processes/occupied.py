"""Which daemon works in a folder: a mark on the folder itself, which the kernel removes when its holder ends.

The mark is a shared record lock (of an open file description, fcntl(2)) on the byte whose number is the daemon's pid;
a folder can be opened for reading only, and that allows no exclusive one. So each daemon first puts its mark and then
looks for those of others. It is no flock(2): an action's own `flock .` would wait until it times out, and a person's
would hold up the goal. It is no file in the workspace: an action could remove that.
"""

from __future__ import annotations

import fcntl
import os
import struct

_LOCK = "hhqqi4x"  # struct flock: type, whence, start, length, pid
_FIRST = 1 << 40  # the byte of pid 0, which no one else locks of a folder
_PIDS = 1 << 23  # more than pid_max can be


def occupy(fd: int) -> str:
    """Mark a folder as in use while `fd` is open; returns who else uses it, "" if no one does.

    A file system without locks has no marks, so no other user is found there.
    """
    me = os.getpid()
    try:
        _lock(fd, fcntl.F_OFD_SETLK, fcntl.F_RDLCK, _FIRST + me, 1)
        kind, start = _lock(fd, fcntl.F_OFD_GETLK, fcntl.F_WRLCK, _FIRST, _PIDS)
        if kind == fcntl.F_UNLCK:
            return ""
        _lock(fd, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, _FIRST + me, 1)
    except OSError:
        return ""
    other = start - _FIRST
    return "another goal of this daemon" if other == me else f"another clew (process {other})"


def _lock(fd: int, what: int, kind: int, start: int, length: int) -> tuple[int, int]:
    """Set, remove or look for a lock; returns the kind and the start of the one that is in the way."""
    answer = fcntl.fcntl(fd, what, struct.pack(_LOCK, kind, os.SEEK_SET, start, length, 0))
    found = struct.unpack(_LOCK, answer)
    return found[0], found[2]
