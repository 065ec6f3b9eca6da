"""How much disk the goals' snapshots use: measured once, then counted along."""

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from clew_shared.snapshots.store import bytes_used
from clew_shared.text.plain import plain

log = structlog.get_logger()


class SnapshotSpace:
    """The `bytes` of each goal's store; `make_room` returns whether there is more room for a goal now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.bytes: Counter[str] = Counter()
        self._faults: set[str] = set()
        self.make_room: Callable[[str], Awaitable[bool]] = _nothing_to_remove

    def measure(self) -> None:
        """Measure every store; it blocks."""
        with contextlib.suppress(OSError):
            self.bytes = Counter({one.name: bytes_used(one) for one in self._folder.iterdir()})

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

    def _log(self, error: OSError) -> None:
        reason = plain(error)
        if reason not in self._faults:
            self._faults.add(reason)
            log.warning("snapshot.unusable", folder=str(self._folder), reason=reason)


async def _nothing_to_remove(_goal: str) -> bool:
    return False
