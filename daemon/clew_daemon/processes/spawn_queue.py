"""How many cells start at the same time, and in which order the others wait."""

from __future__ import annotations

import asyncio
import heapq
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class SpawnQueue:
    """A semaphore with two priorities: those that can wait come last, otherwise first come, first served."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: list[tuple[bool, int, asyncio.Future[None]]] = []
        self._count = 0

    @asynccontextmanager
    async def place(self, *, can_wait: bool) -> AsyncIterator[None]:
        """Hold one of the places."""
        await self._acquire(can_wait=can_wait)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, *, can_wait: bool) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._waiting, (can_wait, self._count, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
