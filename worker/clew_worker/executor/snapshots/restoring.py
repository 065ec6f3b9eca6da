"""Restores entries of the workspace from the store: only where exactly that is there which may be replaced.

Each entry is replaced in one step, and one that is as wanted already counts as restored: killed at any point, the same
request is carried out again and completes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from clew_shared.snapshots.entries import LEFT_OUT
from clew_shared.snapshots.names import unquoted
from clew_shared.snapshots.store import SnapshotStore
from clew_shared.text.plain import plain
from clew_shared.wire.executor import (
    LEFT_OUT_FAULT,
    SPECIAL,
    RestoreDone,
    RestoreEntry,
    RestoreRequest,
)
from clew_shared.wire.nursery import CellSpec
from clew_worker.executor.snapshots.folders import open_folder, split
from clew_worker.executor.snapshots.git import Budget, Git, SnapshotError
from clew_worker.executor.snapshots.objects import StoredContents
from clew_worker.executor.snapshots.place import (
    ChangedError,
    NamedPlace,
    make_folder,
    remove_drafts,
    writable,
)
from clew_worker.executor.wire import Wire
from clew_worker.executor.workspace import Workspace

RESTORE_S = 90.0
"""How long one request may take; the daemon waits longer for the answer."""

_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_FOLDER_MODE = 0o755
_IN_ANSWER_MAX = 300


class Restorer:
    """Restores entries in one workspace."""

    def __init__(self, spec: CellSpec, workspace: Workspace, wire: Wire) -> None:
        self._workspace = workspace
        self._wire = wire
        self._store = SnapshotStore(Path(spec.sandbox.store), spec.git)

    def restore(self, request: RestoreRequest) -> RestoreDone:
        """Restore entries in their order; what cannot be restored is in the answer."""
        restored: list[tuple[str, str]] = []
        left: list[str] = []
        faults: dict[str, str] = {}
        budget = Budget(self._wire, RESTORE_S)
        root = self._workspace.fileno()
        objects = StoredContents(Git(self._store, root, budget), request.entries)
        work = _Restoring(root, objects, request)
        for entry in request.entries:
            try:
                budget.check()
                work.restore(entry)
                restored.append((entry.name, _object(entry)))
                continue
            except ChangedError:
                pass
            except SnapshotError as error:
                faults[entry.name] = str(error)[:_IN_ANSWER_MAX]
            except OSError as error:
                faults[entry.name] = plain(OSError(error.errno, error.strerror))
            left.append(entry.name)
        work.finish()
        return RestoreDone(id=request.id, restored=tuple(restored), left=tuple(left), faults=faults)


class _Restoring:
    """One request, in the workspace that is open as `root`."""

    def __init__(self, root: int, objects: StoredContents, request: RestoreRequest) -> None:
        self._root = root
        self._objects = objects
        self._tree = request.tree
        self._others = {unquoted(name) for name in request.others}
        self._seen: set[str] = set()
        self._emptied: set[str] = set()
        self._wanted_folders: frozenset[bytes] | None = None

    def restore(self, entry: RestoreEntry) -> None:
        """Restore one entry; ChangedError where something else is there. Raises SnapshotError, OSError."""
        path = _path(entry.name)
        if any(
            side is not None and side[0] == LEFT_OUT.mode for side in (entry.present, entry.wanted)
        ):
            raise SnapshotError(LEFT_OUT_FAULT)
        if entry.wanted is None:
            self._remove(path, entry)
            self._emptied.add(split(path)[0])
            return
        self._remove_emptied()
        with self._folder_of(path, make=entry.present is None) as at, writable(at):
            place = NamedPlace(at, split(path)[1], self._objects)
            if place.holds(entry.wanted):
                return
            if place.is_special:
                raise SnapshotError(SPECIAL)
            if not place.holds(entry.present) and not (
                entry.present is None and place.is_empty_folder
            ):
                raise ChangedError
            place.put(entry.wanted)

    def finish(self) -> None:
        """Remove the folders that have become empty, and make everything durable."""
        with contextlib.suppress(SnapshotError):
            self._remove_emptied()
        for folder in self._seen:
            with contextlib.suppress(OSError):
                self._sync(folder)

    def _remove(self, path: str, entry: RestoreEntry) -> None:
        with contextlib.ExitStack() as stack:
            try:
                at = stack.enter_context(self._folder_of(path, make=False))
            except ChangedError:
                return  # where there is no such folder, nothing is in it
            place = NamedPlace(at, split(path)[1], self._objects)
            if place.holds(None) or (place.is_folder and self._is_wanted(path)):
                return
            if place.is_special:
                raise SnapshotError(SPECIAL)
            if not place.holds(entry.present):
                raise ChangedError
            with writable(at):
                place.put(None)

    @contextlib.contextmanager
    def _folder_of(self, path: str, *, make: bool) -> Iterator[int]:
        """Open the folder of a path, without the drafts of an undo before; ChangedError where it is none."""
        folder = split(path)[0]
        try:
            at = open_folder(self._root, folder)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            if not make or error.errno != errno.ENOENT:
                raise ChangedError from None
            at = self._made(folder)
        try:
            if folder not in self._seen:
                self._seen.add(folder)
                with writable(at):
                    remove_drafts(at)
            yield at
        finally:
            os.close(at)

    def _made(self, folder: str) -> int:
        """Open a folder; make it and those above it that are missing. ChangedError where something else is there."""
        at, path = open_folder(self._root, ""), ""
        for name in folder.split("/"):
            try:
                below = self._below(at, path, name)
            finally:
                os.close(at)
            at, path = below, f"{path}/{name}" if path else name
        return at

    def _below(self, at: int, path: str, name: str) -> int:
        """Open a folder in the folder at `path`; make it if it is missing."""
        try:
            return open_folder(at, name)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno in _NOT_THERE:
                raise ChangedError from None
            raise
        self._seen.add(path)
        with writable(at), contextlib.suppress(FileExistsError):
            make_folder(at, name, _FOLDER_MODE)
        return open_folder(at, name)

    def _remove_emptied(self) -> None:
        """Remove the folders that have become empty, the deepest first, unless they are wanted."""
        for folder in sorted(self._emptied, key=len, reverse=True):
            empty = folder
            with contextlib.suppress(OSError, ChangedError, SnapshotError):
                while empty and self._is_removed(empty):
                    empty = split(empty)[0]
        self._emptied.clear()

    def _is_removed(self, folder: str) -> bool:
        """Remove a folder if it is empty, not wanted and the goal's; return whether it was removed."""
        if os.fsencode(folder) in self._others:
            return False
        with self._folder_of(folder, make=False) as at:
            place = NamedPlace(at, split(folder)[1], self._objects)
            if not place.is_empty_folder or self._is_wanted(folder):
                return False
            with writable(at):
                place.put(None)
        return True

    def _is_wanted(self, folder: str) -> bool:
        if self._wanted_folders is None:
            self._wanted_folders = self._objects.folders(self._tree)
        return os.fsencode(folder) in self._wanted_folders

    def _sync(self, folder: str) -> None:
        at = open_folder(self._root, folder)
        try:
            os.fsync(at)
        finally:
            os.close(at)


def _path(name: str) -> str:
    """Return the path of an entry; SnapshotError where it could not be one of a snapshot."""
    path = os.fsdecode(unquoted(name))
    parts = path.split("/")
    if {"", ".", ".."}.intersection(parts) or ".git" in (part.lower() for part in parts):
        raise SnapshotError("not a path of a snapshot")
    return path


def _object(entry: RestoreEntry) -> str:
    """Return the object of a restored entry, as in `Touched`."""
    if entry.wanted is None:
        return ""
    return entry.wanted[1] or "/"
