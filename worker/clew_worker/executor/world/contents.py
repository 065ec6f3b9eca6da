"""Describes single entries of the world: the kind, and the content's name in git.

The content of a file is read once and then recognised by its stat; this module decides when that is safe. What cannot
be read is described by its stat, in fewer bytes than a name has.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import time
from typing import NamedTuple

CONTENT_BYTES_MAX = 64 * 1024 * 1024
FOLDER = b"d"
_FRESH_NS = 20_000_000  # a file may change again within one tick of the clock and look the same
_FRESH_COARSE_NS = 2_100_000_000  # the same, where the disk keeps whole seconds only
_SECOND_NS = 1_000_000_000
_CHUNK = 1024 * 1024
_ID_BYTES = 20
_stamp = struct.Struct("=QQqQQI").pack
_NS_MASK = 2**64 - 1  # any date, also one before 1678 or after 2262


class Seen(NamedTuple):
    """An entry as it was seen: its description, `st_mode`, and the stamp by which it is known again, b"" for none."""

    described: bytes
    mode: int
    stamp: bytes = b""

    @property
    def object(self) -> str:
        """The git object, "/" for a folder, "?" where the content was not read."""
        if self.described == FOLDER:
            return "/"
        content = self.described[1:]
        return content.hex() if len(content) == _ID_BYTES else "?"


def blob_hash(size: int, data: bytes = b"") -> hashlib._Hash:
    """Return the hash of a content of `size` bytes that begins with `data`, as git names it."""
    return hashlib.sha1(b"blob %d\0" % size + data, usedforsecurity=False)


def blob_id(data: bytes) -> str:
    """Return the name that git gives a content."""
    return blob_hash(len(data), data).hexdigest()


def stamp_of(info: os.stat_result) -> bytes:
    """Return what changes with a file's content, type and permissions, in 44 bytes."""
    times = info.st_mtime_ns & _NS_MASK, info.st_ctime_ns & _NS_MASK
    return _stamp(info.st_dev, info.st_ino, info.st_size, *times, info.st_mode)


def is_settled(now_ns: int, mtime_ns: int, ctime_ns: int) -> bool:
    """Return whether a change after `now_ns` would show in a file's times (git calls the others racy)."""
    fresh_ns = _FRESH_NS if ctime_ns % _SECOND_NS else _FRESH_COARSE_NS
    since_ns = now_ns - fresh_ns
    return ctime_ns < since_ns and not since_ns <= mtime_ns <= now_ns


class Contents:
    """Describes entries."""

    def __init__(self) -> None:
        self._buffer = bytearray(_CHUNK)
        self._now_ns = 0
        self._read_until = 0.0

    def begin(self, reading_s: float) -> None:
        """Begin a look: files that are not read within `reading_s` are described by size and time."""
        self._now_ns = time.time_ns()
        self._read_until = time.monotonic() + reading_s

    def describe(self, at: int, name: str, info: os.stat_result) -> Seen | None:
        """Describe `name` in the folder `at`, `info` being its lstat; None if it has vanished."""
        if stat.S_ISDIR(info.st_mode):
            return Seen(FOLDER, info.st_mode)
        if stat.S_ISLNK(info.st_mode):
            try:
                target = os.fsencode(os.readlink(name, dir_fd=at))
            except OSError:
                return None
            return Seen(b"l" + blob_hash(len(target), target).digest(), info.st_mode)
        if not stat.S_ISREG(info.st_mode):
            return Seen(b"o%o" % stat.S_IFMT(info.st_mode), info.st_mode)
        content = self._read(at, name, info)
        if content is None:
            return None
        kind = b"x" if info.st_mode & stat.S_IXUSR else b"f"
        is_known = is_settled(self._now_ns, info.st_mtime_ns, info.st_ctime_ns)
        return Seen(kind + content, info.st_mode, stamp_of(info) if is_known else b"")

    def _read(self, at: int, name: str, info: os.stat_result) -> bytes | None:
        """Return the name of a file's content, or a digest of size and time if it cannot be read; None for none."""
        by_stat = _summary(b"%d %d" % (info.st_size, info.st_mtime_ns))
        if info.st_size > CONTENT_BYTES_MAX or time.monotonic() > self._read_until:
            return by_stat
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        except FileNotFoundError:
            return None
        except OSError:
            return by_stat
        try:
            now = os.fstat(fd)
            left = size = now.st_size if stat.S_ISREG(now.st_mode) else 0
            digest = blob_hash(size)
            while left >= 0 and (count := os.readv(fd, [self._buffer])):
                digest.update(memoryview(self._buffer)[:count])
                left -= count
        except OSError:
            return by_stat
        finally:
            os.close(fd)
        return digest.digest() if not left else _summary(digest.digest())  # it changes meanwhile


def _summary(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
