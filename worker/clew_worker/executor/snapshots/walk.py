"""Looks at the folders of a workspace that git shows: for permissions, empty folders, and what git passes over."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection

from clew_worker.executor.snapshots.folders import above, open_folder
from clew_worker.executor.snapshots.git import Budget
from clew_worker.executor.snapshots.index import why_not
from clew_worker.executor.world.ignored import Ignored


class Walk:
    """What is in a workspace, open as `root`: `st_mode` by path, folders with a `.git`, and what cannot be listed.

    What is `covered` is passed over, and so are folders that git ignores and that hold nothing `kept`.
    """

    def __init__(
        self,
        root: int,
        covered: Ignored,
        ignored: set[str],
        kept: Collection[str],
        budget: Budget,
    ) -> None:
        self._root = root
        self._covered = covered
        self._hidden = ignored - {f"{folder}/" for folder in above(kept)}
        self.modes: dict[str, int] = {}
        self.repositories: list[str] = []
        self.left_out: dict[str, str] = {}
        left = [""]
        while left:
            budget.check()
            left += self._list(left.pop())

    def _list(self, folder: str) -> list[str]:
        """Take in a folder; return the folders in it. One that has vanished is as if it had not been there."""
        try:
            fd = open_folder(self._root, folder)
            try:
                with os.scandir(fd) as entries:
                    return [one for entry in entries if (one := self._take(folder, entry))]
            finally:
                os.close(fd)
        except OSError as error:
            self.modes.pop(folder, None)
            if why := why_not(error):
                self.left_out[folder] = why
            return []

    def _take(self, folder: str, entry: os.DirEntry[str]) -> str:
        """Take in an entry; return its path if it is a folder to be listed, else ""."""
        prefix = f"{folder}/" if folder else ""
        if entry.name.lower() == ".git":
            if entry.name == ".git":
                self.repositories.append(folder)
            return ""
        if self._covered.covers(prefix, entry.name):
            return ""
        path = prefix + entry.name
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except FileNotFoundError:
            return ""
        is_folder = stat.S_ISDIR(mode)
        if is_folder and f"{path}/" in self._hidden:
            return ""
        self.modes[path] = mode
        return path if is_folder else ""
