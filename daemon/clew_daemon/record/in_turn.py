"""Lets work that begins in some order also end its last part in that order, without a slow one holding up the rest."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

TURN_S = 2.0
"""How long one waits for the one before it, which may be reading from a disk that hangs."""


class InTurn:
    """Turns in the order in which they were asked for."""

    def __init__(self, turn_s: float = TURN_S) -> None:
        self._turn_s = turn_s
        self._last: asyncio.Event | None = None

    @contextmanager
    def place(self) -> Iterator[Callable[[], Awaitable[None]]]:
        """Take a place in the order, kept until the block is left; gives a function that waits for its turn."""
        before, mine = self._last, asyncio.Event()
        self._last = mine

        async def turn() -> None:
            if before is None:
                return
            try:
                async with asyncio.timeout(self._turn_s):
                    await before.wait()
            except TimeoutError:
                pass  # whoever is before goes on after us

        try:
            yield turn
        finally:
            mine.set()
