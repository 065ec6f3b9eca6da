"""The folders of a workspace as they were last seen, and what has changed in them since.

A small workspace is looked at whole each time. In a large one the kernel reports which names were touched, and only
those are looked at, besides the *blind* folders, which have no watch: the limit of watches, a file system that other
machines write to. Writes through a name outside of the watched folders are not reported: see docs/adr/0010.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from pathlib import Path

from clew_shared.files import inotify
from clew_worker.executor.world.contents import Contents, Seen
from clew_worker.executor.world.ignored import Ignored

ENTRIES_MAX = 250_000
TRACES_MAX = 500_000
"""More changed entries than this are not listed."""

WATCHED_FROM = 100  # entries; fewer are looked at within a millisecond
WATCHES_MAX = 100_000
_MASK = inotify.MODIFY | inotify.ATTRIB | inotify.CLOSE_WRITE | inotify.CREATE | inotify.DELETE
_MASK |= inotify.MOVED_FROM | inotify.MOVED_TO | inotify.ONLYDIR
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK
_SHARED = (
    *("nfs", "cifs", "smb", "9p", "fuse", "virtiofs", "vboxsf", "prl_fs", "ceph", "afs", "coda"),
    *("lustre", "gfs2", "gpfs", "ocfs2", "beegfs", "orangefs"),
)
"""File systems that other machines may change without this kernel's knowledge."""

_SUM_BYTES = 32

Identity = tuple[int, int]
"""Device and inode."""


class _Folder:
    """One folder: what is in it by name, what it is, and the number of its watch."""

    __slots__ = ("identity", "names", "watch")

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.names: dict[str, Seen] = {}
        self.watch: int | None = None


class Tree:
    """One workspace's entries. Folders go by their path with a slash at its end, "" is the workspace itself.

    `partial`: the last look did not see everything.
    """

    def __init__(self, root: str, ignored: Ignored, contents: Contents) -> None:
        self._root = root.rstrip("/") + "/"
        self._ignored = ignored
        self._contents = contents
        self._folders: dict[str, _Folder] = {}
        self._linked: set[tuple[str, str]] = set()  # files that have other names, perhaps elsewhere
        self._queue: inotify.Inotify | None = None
        self._paths: dict[int, str] = {}  # of watched folders
        self._blind: set[str] = set()
        self._room = 0
        self._shared: set[int] = set()
        self._until = 0.0
        self._sum = 0
        self._before: dict[str, Seen | None] | None = None
        self._begun = False
        self.entries = 0
        self.partial = False

    def close(self) -> None:
        """Release the watches; legal at any time."""
        if self._queue is not None:
            self._queue.close()
            self._queue = None
        self._paths = {}
        for folder in self._folders.values():
            folder.watch = None
        self._blind = set(self._folders)

    def digest(self) -> bytes:
        """Return a digest of all entries by path and description: the sum of their hashes."""
        return self._sum.to_bytes(_SUM_BYTES, "big")

    def look(self, *, full: bool, budget_s: float) -> None:
        """See what is there now: `full` by every file's stat, else by what the kernel reports as touched."""
        self._until = time.monotonic() + budget_s
        touched = self._touched()
        if "" not in self._folders:
            self._add("", _identity(self._root))
        self.partial = False
        if touched is not None:
            self._update(touched)
        if full or touched is None or self.partial:
            self.partial = False
            self._walk([""])
            if self._queue is None and self.entries >= WATCHED_FROM and not self.partial:
                self._watch()
                if self._queue is not None:
                    self._walk([""])  # what was listed before that was not watched yet
        if self.partial:
            self._before = None

    def changed(self) -> dict[str, str] | None:
        """Return what has changed between the last look before the last call and the last look, by path.

        Each with its object as in Touched. None where not everything was seen; the first call returns nothing.
        """
        before, found = self._before, dict[str, str]()
        if not self._begun:
            before, self._begun = {}, True
        for path, was in (before or {}).items():
            folder, name = _split(path)
            now = self._folders[folder].names.get(name) if folder in self._folders else None
            if (now and now[:2]) != (was and was[:2]):
                found[path] = now.object if now else ""
        if not self.partial:
            self._before = {}
        return None if before is None else found

    # -- what was touched ----------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Begin to watch; if the kernel gives no queue, every folder stays blind."""
        with contextlib.suppress(OSError):
            self._queue = inotify.Inotify()
            self._room = _limit()
            self._shared = _shared_devices()

    def _touched(self) -> dict[tuple[str, str], bool] | None:
        """Return the names to look at, and whether each is to be read again; None for everything."""
        is_other = "" in self._folders and _identity(self._root) != self._folders[""].identity
        if is_other:
            self._drop("")
        if self._queue is None:
            return None
        events = self._queue.read()
        if events is None:
            self.close()
            return None
        touched = dict.fromkeys(self._linked, False)
        for event in events:
            if event.mask & (inotify.IGNORED | inotify.UNMOUNT):
                self._lose(event.watch)
            elif event.watch in self._paths and event.name:
                touched[self._paths[event.watch], event.name] = True
        return None if is_other or self.partial else touched

    def _lose(self, watch: int) -> None:
        """Note that a watch has ended: the folder was removed, or is watched under another path."""
        path = self._paths.pop(watch, None)
        if path is not None and (folder := self._folders.get(path)) and folder.watch == watch:
            folder.watch = None
            self._blind.add(path)

    def _update(self, touched: dict[tuple[str, str], bool]) -> None:
        names: dict[str, dict[str, bool]] = {}
        for (path, name), afresh in touched.items():
            if not self._ignored.covers(path, name):
                names.setdefault(path, {})[name] = afresh
        new: list[str] = []
        for path in sorted(names):  # a folder comes before those in it
            if (folder := self._folders.get(path)) is None:
                continue  # it went with the one above it
            at = self._open(path, folder)
            if at < 0:
                continue
            try:
                for name, afresh in names[path].items():
                    new += self._look_at(path, folder, at, name, afresh=afresh)
            finally:
                os.close(at)
        self._walk(new)
        for path in sorted(self._blind):
            if path in self._folders:
                self._walk(self._list(path, deep=False))

    # -- looking -------------------------------------------------------------------------------------------

    def _walk(self, paths: list[str]) -> None:
        """List folders, and all in them."""
        left = paths[::-1]
        while left:
            if time.monotonic() > self._until:
                self.partial = True
                return
            left += reversed(self._list(left.pop()))

    def _list(self, path: str, *, deep: bool = True) -> list[str]:
        """Look at all that is in a folder; return the folders in it, only new ones unless `deep`."""
        folder = self._folders[path]
        at = self._open(path, folder)
        if at < 0:
            return []
        below: list[str] = []
        try:
            if folder.watch is None:
                self._add_watch(path, folder, at)
            with os.scandir(at) as listing:
                names = sorted(entry.name for entry in listing)
            there = {name for name in names if not self._ignored.covers(path, name)}
            for name in [name for name in folder.names if name not in there]:
                self._set(path, folder, name, None)
            for name in names:
                if name not in there:
                    continue
                new = self._look_at(path, folder, at, name, afresh=False)
                inside = f"{path}{name}/"
                below += new or ([inside] if deep and inside in self._folders else [])
        except OSError:
            self._empty(path, folder)
        finally:
            os.close(at)
        return below

    def _look_at(
        self, path: str, folder: _Folder, at: int, name: str, *, afresh: bool
    ) -> list[str]:
        """Look at one name; return it as a folder to be listed if it is a new one."""
        known = folder.names.get(name)
        if known is None and self.entries >= ENTRIES_MAX:
            self.partial = True
            return []
        inside = f"{path}{name}/"
        try:
            info = os.stat(name, dir_fd=at, follow_symlinks=False)
        except OSError:
            self._set(path, folder, name, None)
            return []
        seen = self._contents.describe(at, name, info, None if afresh else known)
        is_folder = seen is not None and stat.S_ISDIR(info.st_mode)
        if inside in self._folders:
            if is_folder and self._folders[inside].identity == (info.st_dev, info.st_ino):
                self._set(path, folder, name, seen)
                return []
            self._drop(inside)
        self._set(path, folder, name, seen)
        if is_folder:
            self._add(inside, (info.st_dev, info.st_ino))
        return [inside] if is_folder else []

    def _set(self, path: str, folder: _Folder, name: str, seen: Seen | None) -> None:
        """Note what is at a name, None for nothing."""
        known = folder.names.pop(name, None)
        if seen is not None:
            folder.names[name] = seen
        elif f"{path}{name}/" in self._folders:
            self._drop(f"{path}{name}/")
        if seen is not None and seen.linked:
            self._linked.add((path, name))
        elif known is not None and known.linked:
            self._linked.discard((path, name))
        if (known and known[:2]) == (seen and seen[:2]):
            return
        if self._before is not None:
            self._before.setdefault(path + name, known)
            if len(self._before) > TRACES_MAX:
                self._before = None
        self.entries += (seen is not None) - (known is not None)
        added = _hash(path + name, seen) - _hash(path + name, known)
        self._sum = (self._sum + added) % (1 << 8 * _SUM_BYTES)

    def _empty(self, path: str, folder: _Folder) -> None:
        for name in list(folder.names):
            self._set(path, folder, name, None)

    def _drop(self, path: str) -> None:
        """Forget a folder and all in it."""
        all_in_it = [path]
        for one in all_in_it:
            inside = (f"{one}{name}/" for name in self._folders[one].names)
            all_in_it += [below for below in inside if below in self._folders]
        for one in reversed(all_in_it):
            folder = self._folders.pop(one)
            self._blind.discard(one)
            if folder.watch is not None and self._paths.get(folder.watch) == one:
                del self._paths[folder.watch]
                if self._queue is not None:
                    self._queue.remove(folder.watch)
            self._empty(one, folder)

    def _add(self, path: str, identity: Identity) -> None:
        self._folders[path] = _Folder(identity)
        self._blind.add(path)

    def _open(self, path: str, folder: _Folder) -> int:
        """Open a folder; one that is not there, or that another one has replaced, is empty, and -1."""
        with contextlib.suppress(OSError):
            at = os.open(self._root + path, _FOLDER)
            if _identity(at) == folder.identity:
                return at
            os.close(at)
        self._empty(path, folder)
        self._blind.add(path)
        return -1

    def _add_watch(self, path: str, folder: _Folder, at: int) -> None:
        """Watch a folder from now on, where that is possible; one that has two paths is watched under one of them."""
        if self._queue is None or len(self._paths) >= self._room:
            return
        if folder.identity[0] in self._shared:
            return
        try:
            watch = self._queue.add(f"/proc/self/fd/{at}", _MASK)
        except OSError:
            self._room = len(self._paths)  # the limit is reached
            return
        self._lose(watch)
        self._paths[watch], folder.watch = path, watch
        self._blind.discard(path)


def _split(path: str) -> tuple[str, str]:
    """Return the folder of a path, with its slash, and the last name."""
    above, slash, name = path.rpartition("/")
    return above + slash, name


def _hash(path: str, seen: Seen | None) -> int:
    if seen is None:
        return 0
    whole = os.fsencode(path) + b"\0" + seen.described
    return int.from_bytes(hashlib.blake2b(whole, digest_size=_SUM_BYTES).digest(), "big")


def _identity(place: str | int) -> Identity:
    """Return what distinguishes a folder from one that replaces it; (0, 0) if there is none."""
    try:
        info = os.stat(place)  # noqa: PTH116 - descriptors, and paths by the ten thousand
    except OSError:
        return (0, 0)
    return info.st_dev, info.st_ino


def _limit() -> int:
    """Return how many watches to use: half of what the user may have, since other programs need some too."""
    try:
        text = Path("/proc/sys/fs/inotify/max_user_watches").read_text()
    except OSError:
        return WATCHES_MAX
    return min(int(text) // 2, WATCHES_MAX)


def _shared_devices() -> set[int]:
    """Return the devices of mounts that other machines may write to."""
    with contextlib.suppress(OSError):
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        devices = {one[2]: one[one.index("-") + 1] for one in mounts}
        shared = [name for name, kind in devices.items() if kind.startswith(_SHARED)]
        return {os.makedev(*map(int, name.split(":"))) for name in shared}
    return set()
