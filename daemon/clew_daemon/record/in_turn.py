"""Ordered turns: work that begins in some order does its last part in that order, unless one is slow."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

TURN_S = 2.0
"""The longest wait for the turn before, which may be reading from a disk that hangs."""


class OrderedTurns:
    """Turns in the order of their requests."""

    def __init__(self, turn_s: float = TURN_S) -> None:
        self._turn_s = turn_s
        self._last: asyncio.Event | None = None

    @contextmanager
    def place(self) -> Iterator[Callable[[], Awaitable[None]]]:
        """Take a place in the order until the block is left; yields a function that waits for the turn."""
        before, mine = self._last, asyncio.Event()
        self._last = mine

        async def turn() -> None:
            if before is None:
                return
            try:
                async with asyncio.timeout(self._turn_s):
                    await before.wait()
            except TimeoutError:
                pass  # the one before continues after this one

        try:
            yield turn
        finally:
            mine.set()
