"""How much disk the goals' snapshots use: measured once, then counted along."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


class SnapshotSpace:
    """The bytes of each goal's store, below one folder.

    `make_room` is called for a goal whose snapshot found no room; it returns whether there is more now.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bytes: dict[str, int] = {}
        self.make_room: Callable[[str], Awaitable[bool]] = _nothing_to_remove

    def measure(self) -> None:
        """Measure every store; it blocks."""
        stores = self._folder.iterdir() if self._folder.is_dir() else ()
        self._bytes = {store.name: used(store) for store in stores}

    @property
    def total(self) -> int:
        """The bytes of all stores together."""
        return sum(self._bytes.values())

    def of(self, goal: str) -> int:
        """Return the bytes of one goal's store."""
        return self._bytes.get(goal, 0)

    def room(self, goal: str, most: int) -> int:
        """Return how large the store of a goal may become, where all may have `most` bytes together."""
        return max(0, most - self.total + self.of(goal))

    def grew(self, goal: str, count: int) -> None:
        """Note that a goal's store grew by `count` bytes."""
        self._bytes[goal] = self.of(goal) + count

    def removed(self, goal: str) -> None:
        """Note that a goal's store is gone."""
        self._bytes.pop(goal, None)


async def _nothing_to_remove(_goal: str) -> bool:
    return False


def used(folder: str | Path) -> int:
    """Return the bytes that the files below a folder use on disk; what vanishes meanwhile counts nothing."""
    total, left = 0, [os.fspath(folder)]
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            continue
    return total
