"""Looks at everything in the workspace that belongs in a snapshot, and recognises by its stat what has not changed.

It reads no content but that of .gitignore files. Names are as `os.fsdecode` gives them.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from clew_shared.snapshots.entries import LEFT_OUT, own_mode
from clew_shared.snapshots.names import quoted
from clew_worker.executor.snapshots.budget import SnapshotError
from clew_worker.executor.snapshots.folders import PATH_BYTES_MAX, open_folder
from clew_worker.executor.world.contents import STAMP_BYTES, stamp_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_worker.executor.snapshots.budget import Budget
    from clew_worker.executor.snapshots.rules import Chain, IgnoreRules
    from clew_worker.executor.world.ignored import Ignored

ENTRIES_MAX = 250_000

UNSETTLED = bytes(STAMP_BYTES)
"""The stamp of a file that may change again and look the same: it equals none."""
_SPECIAL = {
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


class SeenFile(NamedTuple):
    """A file or symlink in a snapshot: by what it is recognised, its `st_mode`, and its git object."""

    stamp: bytes
    mode: int
    id: str


@dataclass
class Listing:
    """What a snapshot holds, by path: files, symlinks, and folders with their `st_mode`; and why it leaves out what."""

    files: dict[str, SeenFile] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass
class Walked:
    """What a walk has found: what is as it was or left out, and what must be read, by folder.

    `repositories` are the folders with a `.git`; `ignored` are names that git ignores, those of folders with a slash.
    """

    listing: Listing = field(default_factory=Listing)
    unread: dict[str, list[str]] = field(default_factory=dict)
    repositories: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


class _Place(NamedTuple):
    """A folder that is still to be listed. `ignored`: only tracked files of it belong in a snapshot."""

    path: str
    chain: Chain
    ignored: bool


class Walk:
    """One look at a workspace, open as `root`; `known` is what the last snapshot holds."""

    def __init__(
        self, root: int, ignored: Ignored, rules: IgnoreRules, known: Listing, budget: Budget
    ) -> None:
        self._root = root
        self._ignored = ignored
        self._rules = rules
        self._known = known
        self._budget = budget
        self._max_file_bytes = 0
        self._skipped: tuple[int, int] | None = None
        self._seen = 0
        self._left: list[_Place] = []
        self.found = Walked()

    def look(self, max_file_bytes: int, store: tuple[int, int] | None) -> Walked:
        """Look at everything; `store` is the device and inode of a folder that is skipped. Raises SnapshotError."""
        self._max_file_bytes = max_file_bytes
        self._skipped = store
        self._left = [_Place("", (), ignored=False)]
        while self._left:
            self._budget.check()
            self._enter(self._left.pop())
        return self.found

    def _enter(self, place: _Place) -> None:
        try:
            fd = open_folder(self._root, place.path)
        except (FileNotFoundError, NotADirectoryError):  # vanished, or something else by now
            self.found.listing.folders.pop(place.path, None)
            return
        except OSError as error:
            self._cannot_list(place.path, error)
            return
        try:
            with os.scandir(fd) as listing:
                entries = list(listing)
            self._list(place, fd, entries)
        except OSError as error:
            self._cannot_list(place.path, error)
        finally:
            os.close(fd)

    def _cannot_list(self, path: str, error: OSError) -> None:
        if not path:
            raise SnapshotError(f"the workspace cannot be read: {error.strerror}")
        self.found.listing.folders.pop(path, None)
        self.found.listing.left_out[path] = "unreadable"

    def _list(self, place: _Place, fd: int, entries: list[os.DirEntry[str]]) -> None:
        """Sort the entries of a folder; this is the loop that an unchanged workspace spends its time in."""
        path = place.path
        prefix = path + "/" if path else ""
        names = () if self._rules.frozen else {entry.name for entry in entries}
        chain = self._rules.enter(path, fd, names, place.chain)
        known, files, unread = self._known.files, self.found.listing.files, []
        covers = self._ignored.covers
        self._count(len(entries))
        for entry in entries:
            name = entry.name
            inside = prefix + name
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # it has vanished
            was = known.get(inside)
            if was is not None and was.stamp == stamp_of(info):
                files[inside] = was
            elif name == ".git":
                self.found.repositories.append(path)
            elif covers(prefix, name) or name.lower() == ".git":
                continue
            elif stat.S_ISDIR(info.st_mode):
                self._folder(inside, info, place, chain)
            elif was is None and self._is_ignored(inside, place, chain, is_folder=False):
                continue
            elif why := unfit(inside, info, self._max_file_bytes):
                self.found.listing.left_out[inside] = why
            else:
                unread.append(name)
        if unread:
            self.found.unread[path] = unread

    def _count(self, entries: int) -> None:
        self._seen += entries
        if self._seen > ENTRIES_MAX:
            raise SnapshotError(f"the workspace has more than {ENTRIES_MAX} entries")

    def _folder(self, path: str, info: os.stat_result, place: _Place, chain: Chain) -> None:
        if (info.st_dev, info.st_ino) == self._skipped:
            return
        ignored = False
        if path not in self._known.folders or place.ignored:
            ignored = self._is_ignored(path, place, chain, is_folder=True)
            if ignored and not self._rules.leads_to_tracked(path):
                return
        if _is_deep(path):
            self.found.listing.left_out[path] = "deep"
            return
        if not ignored:
            self.found.listing.folders[path] = info.st_mode
        self._left.append(_Place(path, chain, ignored))

    def _is_ignored(self, path: str, place: _Place, chain: Chain, *, is_folder: bool) -> bool:
        if not place.ignored and not self._rules.ignores(chain, path, is_folder=is_folder):
            return False
        if self._rules.is_tracked(path):
            return False
        if not place.ignored:  # else the folder stands for it
            self.found.ignored.append(f"{path}/" if is_folder else path)
        return True


def unfit(path: str, info: os.stat_result, max_file_bytes: int) -> str:
    """Return why what is no folder cannot be in a snapshot, "" if it can."""
    kind = stat.S_IFMT(info.st_mode)
    if kind in _SPECIAL:
        return _SPECIAL[kind]
    if kind == stat.S_IFREG:
        if info.st_size > max_file_bytes:
            return "large"
    elif path.lower().rpartition("/")[2] == ".gitmodules":
        return "symlink"  # newer versions of git take none of this name
    return "deep" if _is_deep(path) else ""


def modes_of(listing: Listing) -> Mapping[str, int]:
    """Return what git does not keep, by quoted name; see `entries.read_modes`."""
    found = {quoted(os.fsencode(path)): LEFT_OUT.mode for path in listing.left_out}
    above = {path.rpartition("/")[0] for path in (*listing.files, *listing.folders)}
    for path, mode in listing.folders.items():
        if path not in above:
            found[quoted(os.fsencode(path))] = mode
        elif (bits := own_mode(mode)) is not None:
            found[quoted(os.fsencode(path))] = bits
    for path, file in listing.files.items():
        if (bits := own_mode(file.mode)) is not None:
            found[quoted(os.fsencode(path))] = bits
    return found


def _is_deep(path: str) -> bool:
    return len(path) > PATH_BYTES_MAX // 4 and len(os.fsencode(path)) > PATH_BYTES_MAX
