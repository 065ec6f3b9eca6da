"""The digest of the world: equal digests mean that the workspace is as it was.

Files by path, type, executable bit and content; in a git repository HEAD and the index too. The
content of a file is read once and then known by its stat, so that a digest costs one walk.
It knows nothing of actions: who compares digests, and why, is not its business.
Source: contract section 8, "World".
"""

import fnmatch
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from clew_shared import contextdir
from clew_shared.cellwire import World

from .git import GitState

ENTRIES_MAX = 100_000
CONTENT_BYTES_MAX = 64 * 1024 * 1024
_FRESH_NS = 20_000_000  # a file may change again within one tick of the clock and look the same
_CHUNK = 1024 * 1024

_Stamp = tuple[int, int, int, int, int]


def _matcher(globs: tuple[str, ...]) -> re.Pattern[str] | None:
    if not globs:
        return None
    return re.compile("|".join(fnmatch.translate(one.rstrip("/")) for one in globs))


class Ignored:
    """Which paths are no part of the world: globs of names, or with a `/` in them of paths."""

    def __init__(self, globs: tuple[str, ...]) -> None:
        self._names = _matcher(tuple(one for one in globs if "/" not in one.rstrip("/")))
        self._paths = _matcher(tuple(one for one in globs if "/" in one.rstrip("/")))

    def covers(self, name: str, path: str) -> bool:
        if self._names is not None and self._names.match(name):
            return True
        return self._paths is not None and self._paths.match(path) is not None


def _stamp(info: os.stat_result) -> _Stamp:
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


class WorldWatch:
    """Digests of one workspace, again and again."""

    def __init__(self, root: str, ignore: tuple[str, ...]) -> None:
        self._root = root
        self._ignored = Ignored((*ignore, contextdir.FOLDER))  # clew's own is never the work
        self._git = GitState(Path(root))
        self._known: dict[_Stamp, bytes] = {}

    def digest(self) -> World:
        """Digest the workspace as it is now; what vanishes meanwhile is not there."""
        fresh_from_ns = time.time_ns() - _FRESH_NS
        whole = hashlib.blake2b(digest_size=16)
        seen: dict[_Stamp, bytes] = {}
        entries = 0
        partial = False
        for path, entry in self._walk():
            if entries >= ENTRIES_MAX:
                partial = True
                break
            content = self._entry(entry, seen, fresh_from_ns)
            if content is not None:
                entries += 1
                whole.update(os.fsencode(path) + b"\0" + content + b"\n")
        self._known = seen
        whole.update(self._git.digest())
        return World(digest=whole.hexdigest(), entries=entries, partial=partial)

    def _walk(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Give all that is part of the world, in order; without recursion, as folders may be very deep."""
        left = [("", _listed(self._root))]
        while left:
            prefix, entries = left[-1]
            entry = next(entries, None)
            if entry is None:
                left.pop()
                continue
            path = prefix + entry.name
            if self._ignored.covers(entry.name, path):
                continue
            yield path, entry
            if entry.is_dir(follow_symlinks=False):
                left.append((path + "/", _listed(entry.path)))

    def _entry(
        self, entry: os.DirEntry[str], seen: dict[_Stamp, bytes], fresh_from_ns: int
    ) -> bytes | None:
        """Describe one entry: type, executable bit and content; None if it is gone."""
        try:
            info = entry.stat(follow_symlinks=False)
            if stat.S_ISLNK(info.st_mode):
                return b"l" + os.fsencode(os.readlink(entry.path))  # noqa: PTH115 - bytes
        except OSError:
            return None
        if not stat.S_ISREG(info.st_mode):
            return b"%o" % stat.S_IFMT(info.st_mode)
        executable = b"x" if info.st_mode & stat.S_IXUSR else b"f"
        stamp = _stamp(info)
        content = self._known.get(stamp) or seen.get(stamp)
        if content is None:
            content = _content(entry.path, info)
            if content is None:
                return None
        if max(info.st_ctime_ns, info.st_mtime_ns) < fresh_from_ns:
            seen[stamp] = content
        return executable + content


def _listed(folder: str) -> Iterator[os.DirEntry[str]]:
    """List a folder in order; one that is gone, closed, or at the end of a path too long, is empty."""
    try:
        with os.scandir(folder) as listing:
            return iter(sorted(listing, key=lambda entry: entry.name))
    except OSError:
        return iter(())


def _content(path: str, info: os.stat_result) -> bytes | None:
    """Digest a file's content; by size and time if large or unreadable, None if it is gone."""
    by_stat = b"%d %d" % (info.st_size, info.st_mtime_ns)
    if info.st_size > CONTENT_BYTES_MAX:
        return by_stat
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return by_stat
    digest = hashlib.blake2b(digest_size=16)
    try:
        left = CONTENT_BYTES_MAX
        while left > 0 and (chunk := os.read(fd, _CHUNK)):
            digest.update(chunk)
            left -= len(chunk)
    except OSError:
        return by_stat
    finally:
        os.close(fd)
    return digest.digest()
