"""Reads a file or symlink of the workspace as it is at one moment, with the name that git gives its content."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from dataclasses import dataclass

from clew_worker.executor.snapshots.walk import UNSETTLED, SeenFile, unfit
from clew_worker.executor.world.contents import is_settled, stamp_of

_TRIES = 3
_CHUNK = 1024 * 1024
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class UnfitError(Exception):
    """What is there cannot be in a snapshot; the text says why, in one word."""


@dataclass(frozen=True)
class Content:
    """What was read, and how it is recognised."""

    seen: SeenFile
    data: bytes


def read_content(at: int, path: str, max_file_bytes: int) -> Content | None:
    """Read the last name of `path` in its folder `at`; None where it has vanished, UnfitError where it is left out."""
    name = path.rpartition("/")[2]
    for _ in range(_TRIES):
        try:
            content = _read_once(at, name, path, max_file_bytes)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            raise UnfitError("unreadable") from None
        if content is not None:
            return content
    raise UnfitError("changing")


def blob_id(data: bytes) -> str:
    """Return the name that git gives a content."""
    return blob_hash(len(data), data).hexdigest()


def file_id(fd: int, size: int) -> str:
    """Return the name that git gives the content of an open file of `size` bytes; "" where it is longer or shorter."""
    digest, left = blob_hash(size), size
    while data := os.read(fd, _CHUNK):
        left -= len(data)
        if left < 0:
            return ""
        digest.update(data)
    return digest.hexdigest() if left == 0 else ""


def blob_hash(size: int, data: bytes = b"") -> hashlib._Hash:
    """Return the hash of a content of `size` bytes that begins with `data`, as git names it."""
    return hashlib.sha1(b"blob %d\0" % size + data, usedforsecurity=False)


def _read_once(at: int, name: str, path: str, max_file_bytes: int) -> Content | None:
    """Return the content, None where it changed meanwhile."""
    now_ns = time.time_ns()
    info = os.stat(name, dir_fd=at, follow_symlinks=False)
    if why := unfit(path, info, max_file_bytes):
        raise UnfitError(why)
    if stat.S_ISDIR(info.st_mode):
        return None
    if stat.S_ISLNK(info.st_mode):
        data = os.fsencode(os.readlink(name, dir_fd=at))
        after = os.stat(name, dir_fd=at, follow_symlinks=False)
    else:
        fd = os.open(name, _READ, dir_fd=at)
        try:
            data = _read_all(fd, info.st_size)
            after = os.fstat(fd)
        finally:
            os.close(fd)
    if stamp_of(after) != stamp_of(info) or len(data) != info.st_size:
        return None
    settled = is_settled(now_ns, info.st_mtime_ns, info.st_ctime_ns)
    stamp = stamp_of(info) if settled else UNSETTLED
    return Content(SeenFile(stamp, info.st_mode, blob_id(data)), data)


def _read_all(fd: int, size: int) -> bytes:
    """Read `size` bytes and, where there are more, at least one of those."""
    parts, left = [], size + 1
    while left > 0 and (data := os.read(fd, min(left, _CHUNK))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)
