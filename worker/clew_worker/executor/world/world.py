"""The world: what is in the workspace, by path, and what has changed since it was last seen.

Equal digests mean that the workspace is as it was. Files by path, type, executable bit and content; in a git repository
HEAD and the index too (docs/adr/0010, docs/loops.md). The content of a file is read once and then recognised by its
stat. What cannot be read is described by its stat, in fewer bytes than a name has.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import re
import stat
import struct
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from clew_shared.files import closing
from clew_shared.views import contextdir
from clew_shared.wire.executor import WorldDigest
from clew_worker.executor.world.git import GitState

FIRST_LOOK_S, LOOK_S = 90.0, 10.0
"""How long a look may take: the first one reads every file. What is not seen by then is left out, and the world is
`partial`; the daemon waits longer than that for the answer."""

ENTRIES_MAX = 250_000
CONTENT_BYTES_MAX = 64 * 1024 * 1024
FOLDER = b"d"
_FRESH_NS = 20_000_000  # a file may change again within one tick of the clock and look the same
_FRESH_COARSE_NS = 2_100_000_000  # the same, where the disk keeps whole seconds only
_SECOND_NS = 1_000_000_000
_CHUNK = 1024 * 1024
_ID_BYTES = 20
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
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


class Ignored:
    """Globs of names ([loops] ignore), or with a `/` in them of paths from the workspace on: no part of the world."""

    def __init__(self, globs: tuple[str, ...]) -> None:
        bare = [one.rstrip("/") for one in globs]
        self._plain = frozenset(one for one in bare if not set(one) & set("/*?["))
        self._name = _matcher(one for one in bare if "/" not in one and one not in self._plain)
        self._path = _matcher(one for one in bare if "/" in one)

    def covers(self, name: str, path: str) -> bool:
        """Return whether the entry `name` at `path` is ignored."""
        return name in self._plain or bool(self._name(name) or self._path(path))


def _matcher(globs: Iterable[str]) -> Callable[[str], object]:
    return re.compile("|".join(map(fnmatch.translate, globs)) or "(?!)").match


class WorldWatch:
    """Repeated looks at one workspace."""

    def __init__(self, root: str, ignore: tuple[str, ...]) -> None:
        self._root = root.rstrip("/") + "/"
        self._ignored = Ignored((*ignore, contextdir.FOLDER))  # clew's own is no part of the world
        self._git = GitState(Path(root))
        self._budget_s = FIRST_LOOK_S
        self._seen: dict[str, Seen] = {}
        self._partial = False
        self._reported: dict[str, Seen] | None = None
        self._begun = False

    def digest(self) -> WorldDigest:
        """Digest the workspace as it is now; files that vanish meanwhile are not in it."""
        self.look()
        whole = hashlib.blake2b(digest_size=16)
        for path in sorted(self._seen):
            described = self._seen[path].described
            whole.update(b"%d %b\0%b" % (len(described), os.fsencode(path), described))
        whole.update(self._git.digest())
        return WorldDigest(digest=whole.hexdigest(), entries=len(self._seen), partial=self._partial)

    def look(self) -> None:
        """See what is there now; files that are not read in half of the time are described by size and date."""
        now_ns, began = time.time_ns(), time.monotonic()
        until, read_until = began + self._budget_s, began + self._budget_s / 2
        self._budget_s = LOOK_S
        found: dict[str, Seen] = {}
        self._partial = False
        folders = [""]
        while folders and not self._partial:
            folders += self._list(folders.pop(), found, now_ns, read_until)
            self._partial = self._partial or time.monotonic() > until
        self._seen = found

    def _list(
        self, folder: str, found: dict[str, Seen], now_ns: int, read_until: float
    ) -> list[str]:
        """Take in what is in a folder, nothing where it cannot be opened; return the folders in it."""
        below: list[str] = []
        covers, known, room = self._ignored.covers, self._seen.get, ENTRIES_MAX - len(found)
        with (
            contextlib.suppress(OSError),
            closing(os.open(self._root + folder, _OPEN_FOLDER)) as at,
            os.scandir(at) as entries,
        ):
            for entry in entries:
                path = folder + (name := entry.name)
                seen = known(path)
                if seen is None and covers(name, path):
                    continue
                try:
                    info = entry.stat(follow_symlinks=False)
                    if seen is None or not seen.stamp or seen.stamp != stamp_of(info):
                        seen = _described(at, name, info, now_ns, read_until)
                except OSError:  # it has vanished
                    continue
                if not room:
                    self._partial = True
                    break
                room -= 1
                found[path] = seen
                if seen.described == FOLDER:
                    below.append(f"{path}/")
        return below

    def changed(self) -> dict[str, str] | None:
        """Return what has changed between the last look before the last call and the last look, by path.

        Each with its object as in Touched. None where not everything was seen; the first call returns nothing.
        """
        before, now = self._reported, self._seen
        self._reported = None if self._partial else now
        if not self._begun:
            self._begun = True
            return {}
        if before is None or self._partial:
            return None
        differ = (p for p, seen in now.items() if p not in before or seen[:2] != before[p][:2])
        return {p: now[p].object for p in differ} | dict.fromkeys(before.keys() - now.keys(), "")


def stamp_of(info: os.stat_result) -> bytes:
    """Return what changes with a file's content, type and permissions, in 44 bytes."""
    times = info.st_mtime_ns & _NS_MASK, info.st_ctime_ns & _NS_MASK
    return _stamp(info.st_dev, info.st_ino, info.st_size, *times, info.st_mode)


def blob_hash(size: int, data: bytes = b"") -> hashlib._Hash:
    """Return the hash of a content of `size` bytes that begins with `data`, as git names it."""
    return hashlib.sha1(b"blob %d\0" % size + data, usedforsecurity=False)


def blob_id(data: bytes) -> str:
    return blob_hash(len(data), data).hexdigest()


def hash_of_file(at: int, name: str, most: int) -> tuple[hashlib._Hash, bool]:
    """Return the hash of a file, and whether all was read: not over `most` bytes, or if it changes; OSError."""
    with closing(os.open(name, _OPEN, dir_fd=at)) as fd:
        now = os.fstat(fd)
        left = size = now.st_size if stat.S_ISREG(now.st_mode) else 0
        digest = blob_hash(size)
        if size > most:
            return digest, False
        while left >= 0 and (data := os.read(fd, min(_CHUNK, left + 1))):
            digest.update(data)
            left -= len(data)
        return digest, not left


def _described(at: int, name: str, info: os.stat_result, now_ns: int, until: float) -> Seen:
    """Describe `name` in the folder `at`, `info` being its lstat; raises FileNotFoundError."""
    if stat.S_ISDIR(info.st_mode):
        return Seen(FOLDER, info.st_mode)
    if stat.S_ISLNK(info.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=at))
        return Seen(b"l" + blob_hash(len(target), target).digest(), info.st_mode)
    if not stat.S_ISREG(info.st_mode):
        return Seen(b"o%o" % stat.S_IFMT(info.st_mode), info.st_mode)
    content = _summary(b"%d %d" % (info.st_size, info.st_mtime_ns))
    if info.st_size <= CONTENT_BYTES_MAX and time.monotonic() <= until:
        try:
            digest, is_whole = hash_of_file(at, name, CONTENT_BYTES_MAX)
            content = digest.digest() if is_whole else _summary(digest.digest())
        except FileNotFoundError:
            raise
        except OSError:
            pass
    kind = b"x" if info.st_mode & stat.S_IXUSR else b"f"
    is_known = is_settled(now_ns, info.st_mtime_ns, info.st_ctime_ns)
    return Seen(kind + content, info.st_mode, stamp_of(info) if is_known else b"")


def is_settled(now_ns: int, mtime_ns: int, ctime_ns: int) -> bool:
    """Return whether a change after `now_ns` would show in a file's times (git calls the others racy)."""
    fresh_ns = _FRESH_NS if ctime_ns % _SECOND_NS else _FRESH_COARSE_NS
    since_ns = now_ns - fresh_ns
    return ctime_ns < since_ns and not since_ns <= mtime_ns <= now_ns


def _summary(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
