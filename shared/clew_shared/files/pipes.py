"""Reading a pipe in an event loop, with one owner of its descriptor."""

import asyncio
import os
from typing import Self


class PipeReader:
    """The read end of a pipe, which it closes; use it as `async with`. One read at a time.

    A transport of uvloop closes the descriptor of a pipe twice (seen in 0.23). Between the two another thread may have
    opened a file or folder under the same number, which is then closed in its place.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        os.close(self._fd)

    async def read(self, size: int) -> bytes:
        """Return at most `size` bytes when some are there, b"" at the end; the loop has its turn before each read."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        while True:
            loop.add_reader(self._fd, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(self._fd)
            try:
                return os.read(self._fd, size)
            except BlockingIOError:
                ready.clear()
