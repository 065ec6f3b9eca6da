"""How long a snapshot or a restore may take, and whether the daemon still waits for it."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew_worker.executor.wire import Wire

_SLICE_S = 0.2  # how soon a hang-up is noticed


class SnapshotError(Exception):
    """A snapshot cannot be taken, or an entry not restored; the text says why."""


class NoRoomError(SnapshotError):
    """The store is as large as it may be."""


class Budget:
    """A deadline; each check and wait raises SnapshotError when it has passed, or the daemon has hung up."""

    def __init__(self, wire: Wire, seconds: float) -> None:
        self._wire = wire
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._look_again = 0.0

    def check(self) -> None:
        """Raise SnapshotError if there is no more time; cheap enough for each folder and file."""
        now = time.monotonic()
        if now > self._until:
            raise SnapshotError(f"it took more than {self._seconds:.0f} s")
        if now > self._look_again:
            self._wire.wait((), 0)
            self._look_again = now + _SLICE_S
        if self._wire.closed:
            raise SnapshotError("the daemon has hung up")

    def wait_readable(self, fd: int) -> None:
        """Wait until a descriptor can be read."""
        while fd not in self._wire.wait((fd,), _SLICE_S):
            self.check()

    def wait_writable(self, fd: int) -> None:
        """Wait until a descriptor can be written."""
        while not select.select([], [fd], [], _SLICE_S)[1]:
            self.check()
