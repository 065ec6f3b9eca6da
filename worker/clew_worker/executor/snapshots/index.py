"""Brings git's index of a workspace up to date: git finds, hashes and writes what has changed since it was last."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from clew_worker.executor.snapshots.folders import above, open_folder, split
from clew_worker.executor.snapshots.git import Git, GitFailedError, SnapshotError
from clew_worker.executor.world.contents import stamp_of

_TRIES = 3
_BATCH_BYTES = 32 * 1024 * 1024  # the limit of the store may be passed by so much
_PACKED_FROM = 50  # names in a batch: fewer are loose objects
_EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
_NAMED = re.compile(rb"(?:Unable to process path |bytes from ')(.*?)'?\n?\Z", re.DOTALL)
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_SPECIAL = {
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


class Index:
    """The index of one workspace, open as `root`; `room` is called after each batch, and may raise.

    `streams`: git writes large files of one run into one pack, as it reads them; as mapped memory, one that is cut
    meanwhile would end it. `kept` are the names in it, and `left_out` has why what is left out cannot be kept, by path.
    """

    def __init__(
        self,
        git: Git,
        root: int,
        max_file_bytes: int,
        room: Callable[[], None],
        *,
        streams: bool,
    ) -> None:
        self._git = git
        self._root = root
        self._room = room
        self._max_file_bytes = max_file_bytes
        self._streams = streams
        self.inner: set[str] = set()
        self.kept: set[str] = set()
        self.left_out: dict[str, str] = {}

    def listed(self, rules: str) -> list[str]:
        """Return what git finds changed, new or gone by rules, which are an option of ls-files.

        git lists a repository inside as one name, until a file of it is in the index; these names are in `inner`.
        """
        while True:
            options = ("ls-files", "-z", "-t", "-c", "-o", "-m", "-d", rules)
            found = [(one[0], one[2:]) for one in self._git.names(*options)]
            inner = {name for _, name in found if name.endswith("/")} - self.inner
            if not inner:
                self.kept = {name for tag, name in found if tag == "H"}
                return [name for tag, name in found if tag != "H" and name not in self.inner]
            self.inner |= inner
            lines = (f"100644 {_EMPTY_BLOB}\t{name}.clew" for name in inner)
            self._git.tell(lines, "update-index", "-z", "--index-info")

    def update(self, names: Iterable[str]) -> None:
        """Take in these names as they are now; one that does not stop changing is left out. Raises SnapshotError."""
        left = list(names)
        for folder in ("", *above(left)):  # git reads these, and would wait for a FIFO
            self._check_attributes(f"{folder}/.gitattributes".removeprefix("/"))
        for _ in range(_TRIES):
            left = self._updated(left)
            if not left:
                return
        self._leave(left, "changing")

    def _check_attributes(self, path: str) -> None:
        with contextlib.suppress(OSError):
            if kind := special(os.stat(path, dir_fd=self._root).st_mode):
                raise SnapshotError(f"{path} is a {kind}")

    def _updated(self, names: list[str]) -> list[str]:
        """Take in names; return those that have changed meanwhile."""
        there: dict[str, os.stat_result] = {}
        gone = []
        for name, found in self._looked(names):
            self.left_out.pop(name, None)
            if isinstance(found, os.stat_result):
                there[name] = found
            else:
                gone.append(name)
                if found:
                    self.left_out[name] = found
        self.kept.difference_update(gone)
        if gone:
            self._git.tell(gone, "update-index", "-z", "--force-remove", "--stdin")
        self.kept.update(there)
        for batch in _batches(there):
            self._add(batch)
            self._room()
        again = self._looked(there)
        return [name for name, found in again if not _is_same(there[name], found)]

    def _add(self, batch: list[str]) -> None:
        """Add files; one that git cannot read to its end has been cut meanwhile."""
        left = dict.fromkeys(batch)
        from_bytes = 1 if len(batch) >= _PACKED_FROM else 32 * 1024
        packed = (
            ("-c", "pack.compression=1", "-c", f"core.bigFileThreshold={from_bytes}")
            if self._streams
            else ()
        )
        while left:
            try:
                options = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
                self._git.tell(left, *packed, *options)
            except GitFailedError as error:
                found = _NAMED.search(error.said)
                name = os.fsdecode(found[1]) if found else ""
                if name not in left:
                    raise
                del left[name]
                self._leave([name], "changing")
            else:
                return

    def _leave(self, names: list[str], why: str) -> None:
        self._git.tell(names, "update-index", "-z", "--force-remove", "--stdin")
        self.kept.difference_update(names)
        self.left_out |= dict.fromkeys(names, why)

    def _looked(self, names: Iterable[str]) -> Iterator[tuple[str, os.stat_result | str]]:
        """Yield for each name what is there, or why that cannot be kept, "" for nothing or a folder."""
        for folder, inside in groupby(sorted(names, key=split), key=lambda name: split(name)[0]):
            try:
                at = open_folder(self._root, folder)
            except OSError as error:
                yield from ((name, why_not(error)) for name in inside)
                continue
            try:
                for name in inside:
                    try:
                        yield name, self._fit(at, split(name)[1])
                    except OSError as error:
                        yield name, why_not(error)
            finally:
                os.close(at)

    def _fit(self, at: int, name: str) -> os.stat_result | str:
        """Return what is at a name of a folder, or why that cannot be in a snapshot, "" for a folder."""
        info = os.stat(name, dir_fd=at, follow_symlinks=False)
        kind = stat.S_IFMT(info.st_mode)
        if kind == stat.S_IFDIR or kind in _SPECIAL:
            return _SPECIAL.get(kind, "")
        if kind == stat.S_IFLNK:  # newer versions of git take none of this name
            return "symlink" if name.lower() == ".gitmodules" else info
        if info.st_size > self._max_file_bytes:
            return "large"
        return info if os.access(name, os.R_OK, dir_fd=at) else "unreadable"


def special(mode: int) -> str:
    """Return the kind of a file that is in no snapshot, "" for any other."""
    return _SPECIAL.get(stat.S_IFMT(mode), "")


def why_not(error: OSError) -> str:
    """Return why what cannot be looked at is not in a snapshot, "" where it is not there any more."""
    if error.errno == errno.ENAMETOOLONG:
        return "deep"
    return "" if error.errno in _GONE else "unreadable"


def _is_same(then: os.stat_result, now: os.stat_result | str) -> bool:
    return isinstance(now, os.stat_result) and stamp_of(now) == stamp_of(then)


def _batches(found: dict[str, os.stat_result]) -> Iterator[list[str]]:
    """Yield names in parts of some megabytes."""
    batch: list[str] = []
    size = 0
    for name, info in found.items():
        batch.append(name)
        size += info.st_size
        if size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
