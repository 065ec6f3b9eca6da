"""Messages to open pages about which goals have changed, as it becomes durable (Server-Sent Events).

A page gets no content this way: it fetches itself again and replaces what differs. So nothing can be shown twice or
be missing, whatever happens to the daemon or to the connection, and a slow page skips what it missed.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

CHANGES_KEPT = 256
"""Changes that are remembered; a page that has missed more is told that any goal may have changed."""
READERS_MAX = 24
AT_MOST_EVERY_S = 0.2
ALIVE_S = 15.0
ALL = ""
"""In place of a goal's id: any of them, or the daemon, may have changed."""


class LiveChanges:
    """Numbers the changes, and lets any number of pages wait for the next one."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._last = 0
        self._goals: deque[str] = deque(maxlen=CHANGES_KEPT)
        self.readers = 0

    def add(self, goals: Iterable[str]) -> None:
        """Note that goals have changed, each by its id, or `ALL`."""
        for goal in goals:
            self._last += 1
            self._goals.append(goal)
        self._changed.set()
        self._changed = asyncio.Event()

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield messages for one page, and a comment now and then by which a dead connection is found."""
        self.readers += 1
        seen = self._last
        try:
            yield b"retry: 1000\n\n"
            while True:
                if self._last == seen and not await self._next():
                    yield b": alive\n\n"
                    continue
                goals, seen = self._since(seen), self._last
                yield f"data: {json.dumps({'goals': goals})}\n\n".encode()
                await asyncio.sleep(AT_MOST_EVERY_S)
        finally:
            self.readers -= 1

    async def _next(self) -> bool:
        """Wait for the next change; return whether one came within `ALIVE_S`."""
        try:
            async with asyncio.timeout(ALIVE_S):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _since(self, seen: int) -> list[str]:
        missed = self._last - seen
        return [ALL] if missed > len(self._goals) else sorted(set(list(self._goals)[-missed:]))
