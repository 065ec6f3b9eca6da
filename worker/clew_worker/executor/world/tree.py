"""The folders of a workspace as they were last seen, each with a digest of what it holds.

A Merkle tree: a folder's digest is made of its entries' names and descriptions, those of folders
being their digests, so that a change costs the folders above it and no others. `world` decides what is looked at
again, and when.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from operator import attrgetter

from clew_worker.executor.world.contents import Contents, object_of
from clew_worker.executor.world.ignored import Ignored
from clew_worker.executor.world.watches import (
    IS_FOLDER,
    WRITTEN,
    Folder,
    Identity,
    Look,
    Touched,
    Watches,
)

TRACES_MAX = 500_000
"""More entries than this are not compared: the report says that it is not whole."""


class Traces:
    """The entries that were touched since the last report. `whole`: none of them is missing here."""

    def __init__(self) -> None:
        self._before: dict[str, Look | None] = {}
        self.whole = False

    def begin(self) -> None:
        """Begin a report with the tree as it is known now."""
        self._before = {}
        self.whole = True

    def lose(self) -> None:
        """Forget everything: something was not seen, so the next report cannot be whole."""
        self._before = {}
        self.whole = False

    def note(self, folder: Folder, name: str) -> None:
        """Note how an entry was, before it is taken to be anything else."""
        if self.whole:
            self._before.setdefault(folder.path + name, folder.look(name))
            if len(self._before) > TRACES_MAX:
                self.lose()

    def note_all(self, folder: Folder) -> None:
        """Note the entries of a folder that is about to be forgotten."""
        if self.whole:
            for name in folder.lines:
                self.note(folder, name)

    def note_differences(
        self, folder: Folder, lines: dict[str, bytes], modes: dict[str, int]
    ) -> None:
        """Note the entries of a folder that are not as these."""
        if not self.whole or (lines == folder.lines and modes == folder.modes):
            return
        for name in folder.lines.keys() | lines.keys():
            now = lines.get(name), modes.get(name)
            if (folder.lines.get(name), folder.modes.get(name)) != now:
                self.note(folder, name)

    def changed(self, root: Folder) -> dict[str, str]:
        """Return the entries that are not what they were, by path, as in Touched; `root` is the tree's."""
        folders: dict[str, Folder | None] = {"": root}
        found: dict[str, str] = {}
        for path, before in self._before.items():
            above, _, name = path.rpartition("/")
            folder = _folder(folders, above)
            now = folder.look(name) if folder else None
            if now != before:
                found[path] = _object(now)
        return found


def _folder(known: dict[str, Folder | None], path: str) -> Folder | None:
    """Return the folder at a path, None where there is none; `known` has those that were found before."""
    missing: list[str] = []
    while path not in known:
        path, _, name = path.rpartition("/")
        missing.append(name)
    folder = known[path]
    while missing:
        name = missing.pop()
        folder = folder.below.get(name) if folder else None
        path = f"{path}/{name}" if path else name
        known[path] = folder
    return folder


def _object(look: Look | None) -> str:
    """Return the git object of an entry, "" for nothing, "/" for a folder, "?" where it was not read."""
    if look is None:
        return ""
    return "/" if look[0] == IS_FOLDER else object_of(look[0].partition(b"\0")[2])


ENTRIES_MAX = 250_000
WATCHED_FROM = 100  # entries; fewer are looked at within a millisecond
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK

Entry = tuple[str, os.stat_result]


class Tree:
    """One workspace's folders. `partial`: the last look did not see everything."""

    def __init__(self, root: str, ignored: Ignored, contents: Contents, watches: Watches) -> None:
        self._path = root.rstrip("/") + "/"
        self._ignored = ignored
        self._contents = contents
        self._watches = watches
        self.root = Folder(None, "", "", _identity(root))
        self.traces = Traces()
        self._digest = b""
        self._stale = {self.root}
        self._room = 0
        self._until = 0.0
        self.linked: set[Folder] = set()
        self.entries = 0
        self.partial = False

    @property
    def replaced(self) -> bool:
        """Whether another folder is at the workspace's path now."""
        return _identity(self._path) != self.root.identity

    def walk(self, budget_s: float) -> list[Folder]:
        """Look at everything, or as much as can be seen in `budget_s`.

        Return the folders that were listed before watching began.
        """
        if self.replaced:
            self._release(self.root)
            self.root = Folder(None, "", "", _identity(self._path))
            self._stale.add(self.root)
        self._begin(ENTRIES_MAX, budget_s)
        return self._walk([self.root], deep=True)

    def look(self, touched: Touched, again: Iterable[Folder], budget_s: float) -> None:
        """Look at the names that were touched, and at whole folders `again`."""
        self._begin(2 * ENTRIES_MAX, budget_s)  # as many new entries as known ones
        whole = {folder for folder, names in touched.items() if "" in names}.union(again)
        # What is below comes first: with a folder that is made again, its names would be lost.
        for folder in sorted(touched, key=lambda one: len(one.path), reverse=True):
            names = {name: mask for name, mask in touched[folder].items() if name}
            if names and not folder.gone:
                self._walk(self._update(folder, names), deep=True)
        for folder in whole:  # listed by their stat, so written names before that
            if not folder.gone:
                self._walk([folder], deep=False)
        self.partial = self.partial or self.entries > ENTRIES_MAX

    def settle(self) -> bytes:
        """Return the digest of the whole tree; only folders above a change are digested again."""
        above: set[Folder] = set()
        for stale in self._stale:
            folder: Folder | None = stale
            while folder is not None and folder not in above:
                above.add(folder)
                folder = folder.parent
        waits = dict.fromkeys(above, 0)
        for folder in above:
            if folder.parent is not None:
                waits[folder.parent] += 1
        ready = [folder for folder, count in waits.items() if not count]
        while ready:
            folder = ready.pop()
            digest, parent = folder.digest(), folder.parent
            if parent is None:
                self._digest = digest
                continue
            parent.lines[folder.name] = _line(folder.name, b"d" + digest)
            waits[parent] -= 1
            if not waits[parent]:
                ready.append(parent)
        self._stale = set()
        return self._digest

    def _begin(self, room: int, budget_s: float) -> None:
        self._room = room
        self._until = time.monotonic() + budget_s
        self.partial = False

    def _walk(self, folders: list[Folder], *, deep: bool) -> list[Folder]:
        """List folders, and those in them that are new, or all if `deep`; without recursion.

        Return those that were listed before watching began.
        """
        left = folders[::-1]
        early = []
        while left:
            folder = left.pop()
            if self._room <= 0 or time.monotonic() > self._until:
                self.partial = True
                self._settle_on(folder, {}, {}, {}, frozenset())
            else:
                before = folder.below
                self._list(folder)
                if not self._watches.on:
                    early.append(folder)
                    if self.entries >= WATCHED_FROM:
                        self._watches.start()
                below = folder.below
                new = (below[n] for n in reversed(below) if deep or before.get(n) is not below[n])
                left.extend(new)
        return early

    def _list(self, folder: Folder) -> None:
        """Look at all that is in a folder; one that cannot be opened is empty."""
        lines: dict[str, bytes] = {}
        modes: dict[str, int] = {}
        below: dict[str, Folder] = {}
        linked = []
        fd = self._open(folder)
        try:
            for name, info in _found(fd, folder, self._ignored):
                if len(lines) >= self._room:
                    self.partial = True
                    break
                line = self._described(folder, fd, name, info, below)
                if line is not None:
                    lines[name] = line
                    modes[name] = info.st_mode
                    if info.st_nlink > 1 and name not in below:
                        linked.append(name)
        finally:
            if fd >= 0:
                os.close(fd)
        self._room -= len(lines)
        self._settle_on(folder, lines, modes, below, frozenset(linked))

    def _described(
        self, folder: Folder, fd: int, name: str, info: os.stat_result, below: dict[str, Folder]
    ) -> bytes | None:
        """Return the line of an entry; a folder goes to `below`, as it is known or new."""
        if not stat.S_ISDIR(info.st_mode):
            described = self._contents.describe(fd, name, info, afresh=False)
            return None if described is None else _line(name, described)
        child = folder.below.get(name)
        if child is None or child.identity != (info.st_dev, info.st_ino):
            child = self._new(folder, name, info)
        below[name] = child
        return folder.lines.get(name, b"")  # of a new one: put there when it is digested

    def _new(self, folder: Folder, name: str, info: os.stat_result) -> Folder:
        child = Folder(folder, name, f"{folder.path}{name}/", (info.st_dev, info.st_ino))
        self._stale.add(child)
        return child

    def _settle_on(
        self,
        folder: Folder,
        lines: dict[str, bytes],
        modes: dict[str, int],
        below: dict[str, Folder],
        linked: frozenset[str],
    ) -> None:
        """Note what a folder holds."""
        self.traces.note_differences(folder, lines, modes)
        for name, child in folder.below.items():
            if below.get(name) is not child:
                self._release(child)
        if lines != folder.lines:
            self._stale.add(folder)
        self.entries += len(lines) - len(folder.lines)
        folder.lines, folder.modes, folder.below, folder.linked = lines, modes, below, linked
        (self.linked.add if linked else self.linked.discard)(folder)

    def _update(self, folder: Folder, names: dict[str, int]) -> list[Folder]:
        """Look at some names of a folder; returns the folders among them, all as new ones."""
        fd = self._open(folder)
        if fd < 0:
            self._settle_on(folder, {}, {}, {}, frozenset())
            return []
        found = []
        try:
            for name, mask in names.items():
                if not self._ignored.covers(folder.path, name):
                    found += self._update_one(folder, fd, name, afresh=bool(mask & WRITTEN))
        finally:
            os.close(fd)
        self._stale.add(folder)
        return found

    def _update_one(self, folder: Folder, fd: int, name: str, *, afresh: bool) -> list[Folder]:
        new: list[Folder] = []
        described, links, mode = None, 1, 0
        self.traces.note(folder, name)
        try:
            info = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            pass
        else:
            mode = info.st_mode
            if stat.S_ISDIR(mode):
                described, new = b"d", [self._new(folder, name, info)]
            else:
                described = self._contents.describe(fd, name, info, afresh=afresh)
                links = info.st_nlink
        if name in folder.below:
            self._release(folder.below.pop(name))
        self.entries += (described is not None) - (name in folder.lines)
        folder.lines.pop(name, None)
        folder.modes.pop(name, None)
        if described is not None:
            folder.lines[name], folder.modes[name] = _line(name, described), mode
        folder.below.update((name, child) for child in new)
        folder.linked = folder.linked | {name} if links > 1 else folder.linked - {name}
        (self.linked.add if folder.linked else self.linked.discard)(folder)
        return new

    def _open(self, folder: Folder) -> int:
        """Open a folder and watch it from now on; -1 if it is not there, or another one is."""
        fd = -1
        try:
            fd = os.open(self._path + folder.path, _FOLDER)
            if _identity(fd) == folder.identity:
                self._watches.watch(folder, fd)
                return fd
        except OSError:
            pass
        if fd >= 0:
            os.close(fd)
        self._watches.blind.add(folder)
        return -1

    def _release(self, folder: Folder) -> None:
        """Forget a folder and all in it."""
        left = [folder]
        while left:
            one = left.pop()
            one.gone = True
            self.traces.note_all(one)
            self.entries -= len(one.lines)
            self._watches.forget(one)
            self._stale.discard(one)
            self.linked.discard(one)
            left.extend(one.below.values())


def _found(fd: int, folder: Folder, ignored: Ignored) -> Iterable[Entry]:
    """Name what is in a folder, in order, with its lstat."""
    if fd < 0:
        return
    try:
        with os.scandir(fd) as listing:
            entries = sorted(listing, key=attrgetter("name"))
    except OSError:
        return
    for entry in entries:
        if ignored.covers(folder.path, entry.name):
            continue
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        yield entry.name, info


def _identity(place: str | int) -> Identity:
    """Return what distinguishes a folder from one that replaces it; (0, 0) if there is none."""
    try:
        info = os.stat(place)  # noqa: PTH116 - descriptors, and paths by the ten thousand
    except OSError:
        return (0, 0)
    return info.st_dev, info.st_ino


def _line(name: str, described: bytes) -> bytes:
    return os.fsencode(name) + b"\0" + described
