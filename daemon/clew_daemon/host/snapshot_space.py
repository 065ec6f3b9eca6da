"""How much disk the goals' snapshots use: measured once, then counted along."""

import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from clew_shared.snapshots.store import bytes_used
from clew_shared.text.plain import plain

log = structlog.get_logger()


class SnapshotSpace:
    """The bytes of each goal's store, below one folder. A folder that cannot be used is logged once, and harms none.

    `make_room` is called for a goal whose snapshot found no room; it returns whether there is more now.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bytes: dict[str, int] = {}
        self._faults: set[str] = set()
        self.make_room: Callable[[str], Awaitable[bool]] = _nothing_to_remove

    def measure(self) -> None:
        """Measure every store; it blocks."""
        with contextlib.suppress(OSError):
            self._bytes = {one.name: bytes_used(one) for one in self._folder.iterdir()}

    def folders(self) -> list[str] | None:
        """Return the names in the folder of the stores, None where it cannot be read; it blocks."""
        try:
            return [store.name for store in self._folder.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            self._log(error)
            return None

    def make(self, goal: str) -> None:
        """Make the folder of a goal's store where it is missing and can be made; it blocks."""
        try:
            for folder in (self._folder, self._folder / goal):
                folder.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            self._log(error)

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

    def _log(self, error: OSError) -> None:
        reason = plain(error)
        if reason not in self._faults:
            self._faults.add(reason)
            log.warning("snapshot.unusable", folder=str(self._folder), reason=reason)


async def _nothing_to_remove(_goal: str) -> bool:
    return False
