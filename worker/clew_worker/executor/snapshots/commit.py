"""Writes one snapshot into the store, by one `git fast-import` that gets only what differs from the snapshot before.

Source: git-fast-import(1).
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from clew_shared.snapshots.entries import git_mode, modes_text
from clew_shared.snapshots.names import quoted
from clew_shared.snapshots.store import FILES, MODES
from clew_worker.executor.snapshots.budget import NoRoomError, SnapshotError
from clew_worker.executor.snapshots.process import GitProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from clew_shared.snapshots.store import SnapshotStore
    from clew_worker.executor.snapshots.budget import Budget
    from clew_worker.executor.snapshots.changes import FileChange

REFS = "refs/snapshots"
_PACKS = "objects/pack"
_LOOK_AGAIN_BYTES = 8 * 1024 * 1024
_TREE = re.compile(rb"\d+ tree ([0-9a-f]{40})\t")
_FOLDERS = ("", "info", "objects", "objects/info", _PACKS, "refs", "refs/heads", REFS)
_LOCKS = (".lock", ".keep")
_LEFT_BY_GIT = ("tmp_", ".tmp-", "fast_import_crash_")


class NewSnapshot:
    """One snapshot as it is written; it exists when `finish` returns, and leaves no trace where it does not."""

    def __init__(
        self, store: SnapshotStore, budget: Budget, number: int, after: str, room_bytes: int
    ) -> None:
        self._store = store
        self._room_bytes = room_bytes
        self._written = 0
        self._ref = f"{REFS}/{number}"
        self._check_room()
        options = ("--quiet", "--done", "--date-format=raw")
        self._git = GitProcess(store, budget, "fast-import", *options)
        head = f"commit {self._ref}\ncommitter clew <clew> {int(time.time())} +0000\ndata 0\n"
        self._write(head.encode() + (f"from {after}\n".encode() if after else b""))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._git.__exit__(kind, error, trace)

    def write(self, change: FileChange) -> None:
        """Write one change; a file that is gone before what is added in its place."""
        if change.file is None:
            self._write(b"D %s\n" % _name(change.path))
            return
        mode = git_mode(change.file.mode)
        if change.data is None:
            self._write(b"M %o %s %s\n" % (mode, change.file.id.encode(), _name(change.path)))
            return
        head = b"M %o inline %s\ndata %d\n" % (mode, _name(change.path), len(change.data))
        for part in (head, change.data, b"\n"):
            self._write(part)

    def finish(self, modes: Mapping[str, int]) -> tuple[str, str]:
        """Complete the snapshot; return its commit and its tree."""
        text = modes_text(modes)
        self._write(b"M 100644 inline %s\ndata %d\n%s\n" % (MODES.encode(), len(text), text))
        self._write(b'ls ""\n')
        line = self._git.read_line()
        tree = _TREE.match(line)
        if tree is None:
            raise SnapshotError("git fast-import: unexpected answer")
        self._check_room()
        self._write(b"\ndone\n")
        self._git.finish()
        return (self._store.folder / self._ref).read_text().strip(), tree[1].decode()

    def _write(self, data: bytes) -> None:
        self._git.write(data)
        self._written += len(data)
        if self._written > _LOOK_AGAIN_BYTES:
            self._written = 0
            self._check_room()

    def _check_room(self) -> None:
        if packed_bytes(self._store) >= self._room_bytes:
            raise NoRoomError("the snapshots have reached [snapshots] max_mb")


def packed_bytes(store: SnapshotStore) -> int:
    """Return how large the store is."""
    return sum(entry.stat().st_size for entry in _entries(store.folder / _PACKS))


def last_number(store: SnapshotStore) -> int:
    """Return the highest number of a snapshot in the store, 0 for none."""
    names = [entry.name for entry in _entries(store.folder / REFS)]
    return max((int(name) for name in names if name.isdecimal()), default=0)


def commit_of(store: SnapshotStore, number: int) -> str:
    """Return the commit of a snapshot, "" where there is none."""
    try:
        return (store.folder / REFS / str(number)).read_text().strip()
    except OSError:
        return ""


def tidy(store: SnapshotStore) -> None:
    """Remove what a git that was killed has left, and set the permissions right. Raises OSError.

    Landlock knows no permissions: a command can change them, but can neither read nor write the store all the same.
    """
    for name in _FOLDERS:
        folder = store.folder / name
        with contextlib.suppress(FileNotFoundError, PermissionError):  # another user's is left
            if stat.S_IMODE(folder.stat().st_mode) != 0o700:
                folder.chmod(0o700)
        for entry in _entries(folder):
            with contextlib.suppress(FileNotFoundError, PermissionError):
                if entry.name.startswith(_LEFT_BY_GIT) or entry.name.endswith(_LOCKS):
                    Path(entry.path).unlink()
                elif entry.is_file(follow_symlinks=False):
                    _set_right(entry)


def _set_right(entry: os.DirEntry[str]) -> None:
    mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
    if mode & 0o077 or not mode & 0o400:
        Path(entry.path).chmod(0o600)


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from list(entries)
    except FileNotFoundError:
        return


def _name(path: str) -> bytes:
    return quoted(FILES.encode() + b"/" + os.fsencode(path)).encode()
