"""The last known result of a look at the disk, for requests that cannot wait for a stalled file system."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

WITHIN_S = 0.3

T = TypeVar("T")


class LastKnown(Generic[T]):
    """Looks in a thread, one look at a time; `first` is the result before the first look ends."""

    def __init__(self, look: Callable[[], T], first: T) -> None:
        self._look = look
        self._found = first
        self._task: asyncio.Task[T] | None = None

    async def now(self, within_s: float = WITHIN_S) -> T:
        """Return what is there now, or was at the last look if this one takes longer than `within_s` seconds."""
        deadline = time.monotonic() + within_s
        await self._wait(deadline)  # a look that began earlier may have missed a change
        if self._task is None:
            self._task = asyncio.create_task(asyncio.to_thread(self._look))
            await self._wait(deadline)
        return self._found

    async def _wait(self, deadline: float) -> None:
        task = self._task
        if task is None:
            return
        await asyncio.wait({task}, timeout=max(0.0, deadline - time.monotonic()))
        if task.done() and task is self._task:
            self._task = None
            self._found = task.result()
