"""What a new snapshot has to write: what differs between the workspace and the last snapshot."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from clew_shared.snapshots.entries import git_mode
from clew_worker.executor.snapshots.folders import open_folder
from clew_worker.executor.snapshots.reading import Content, UnfitError, read_content

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_worker.executor.snapshots.budget import Budget
    from clew_worker.executor.snapshots.walk import Listing, SeenFile, Walked


class FileChange(NamedTuple):
    """A path that is no longer there (`file` is None), is new, or has another content or mode.

    `data` is None where the store has the content already.
    """

    path: str
    file: SeenFile | None
    data: bytes | None = None


class Changes:
    """Reads what a walk of the workspace, open as `root`, has not recognised; completes what the walk found."""

    def __init__(
        self, walked: Walked, known: Listing, root: int, max_file_bytes: int, budget: Budget
    ) -> None:
        self._walked = walked
        self._known = known
        self._root = root
        self._max_file_bytes = max_file_bytes
        self._budget = budget
        self._permissions = False

    @property
    def of_modes(self) -> bool:
        """Whether something differs that git does not keep; known when all changes have been read."""
        now, known = self._walked.listing, self._known
        return (
            self._permissions
            or now.folders != known.folders
            or now.left_out.keys() != known.left_out.keys()
        )

    def read(self) -> Iterator[FileChange]:
        """Yield the changes, what is gone first: something else may be in its place. Raises SnapshotError."""
        unread = {
            f"{folder}/{name}" if folder else name: folder
            for folder, names in self._walked.unread.items()
            for name in names
        }
        for path in self._known.files.keys() - self._walked.listing.files.keys() - unread.keys():
            yield FileChange(path, None)
        for folder, names in self._walked.unread.items():
            yield from self._in_folder(f"{folder}/" if folder else "", folder, names)

    def _in_folder(self, prefix: str, folder: str, names: list[str]) -> Iterator[FileChange]:
        try:
            fd = open_folder(self._root, folder)
        except OSError:  # it has changed since the walk
            fd = -1
        try:
            for name in names:
                self._budget.check()
                yield from self._changed(fd, prefix + name)
        finally:
            if fd >= 0:
                os.close(fd)

    def _changed(self, at: int, path: str) -> Iterator[FileChange]:
        was = self._known.files.get(path)
        content = self._content(at, path)
        if content is None:
            if was is not None:
                yield FileChange(path, None)
            return
        now = content.seen
        self._walked.listing.files[path] = now
        if was is not None and was.id == now.id and git_mode(was.mode) == git_mode(now.mode):
            self._permissions |= was.mode != now.mode
            return
        if now.id in self._stored:
            yield FileChange(path, now)
            return
        self._stored.add(now.id)
        yield FileChange(path, now, content.data)

    @cached_property
    def _stored(self) -> set[str]:
        """The contents that the store has."""
        return {file.id for file in self._known.files.values()}

    def _content(self, at: int, path: str) -> Content | None:
        if at < 0:
            return None
        try:
            return read_content(at, path, self._max_file_bytes)
        except UnfitError as unfit:
            self._walked.listing.left_out[path] = str(unfit)
            return None
