"""The daemon's end of a socket to an agent or an executor: bounded reading and writing, with a deadline on every write.

It frames and times; what a line means is decided elsewhere. Every step passes here, so lines are taken from the
transport without a stream in between, and one that is sent goes to the socket at once.
"""

from __future__ import annotations

import asyncio
import socket
from typing import cast

WRITE_TIMEOUT_S = 30.0


class LineError(Exception):
    """A line is too long."""


class CutLineError(LineError):
    """The last line has no end."""


class LineChannel(asyncio.Protocol):
    """A connected stream of lines of at most `bytes_max` bytes; one task receives.

    `unread` says that the other side left a line unread too long.
    """

    def __init__(self, sock: socket.socket, bytes_max: int) -> None:
        self._sock = sock
        self._bytes_max = bytes_max
        self._transport: asyncio.Transport | None = None
        self._came = bytearray()
        self._searched = 0  # bytes of it, without an end of a line
        self._over = False  # nothing more will come
        self._more: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.unread = False

    @classmethod
    async def over(cls, sock: socket.socket, bytes_max: int) -> LineChannel:
        """Take over a connected, non-blocking socket."""
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_connection(lambda: cls(sock, bytes_max), sock=sock)
        return channel

    async def receive(self) -> bytes | None:
        """Return the next line with its end, None at the end of all; raises LineError."""
        while (end := self._came.find(b"\n", self._searched)) < 0:
            self._searched = len(self._came)
            if self._searched > self._bytes_max:
                raise LineError(f"a line of over {self._bytes_max} bytes")
            if self._over and self._came.strip():
                raise CutLineError("the last line has no end")
            if self._over:
                return None
            await self._wait()
        line = bytes(self._came[: end + 1])
        del self._came[: end + 1]
        self._searched = 0
        return line

    async def send(self, line: bytes) -> bool:
        """Send one line; False if the other side is gone or does not read."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        try:
            rest = line if transport.get_write_buffer_size() else line[self._sock.send(line) :]
        except BlockingIOError:
            rest = line
        except OSError:
            return False
        return not rest or await self._send_later(transport, rest)

    async def _send_later(self, transport: asyncio.Transport, rest: bytes) -> bool:
        """Pass what the socket does not accept now to the transport, and wait until that has room again."""
        transport.write(rest)
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await self._room.wait()
        except TimeoutError:
            self.unread = True
            return False
        return not transport.is_closing()

    @property
    def closed(self) -> bool:
        """It was closed on this side."""
        return self._transport is None or self._transport.is_closing()

    def close(self) -> None:
        """End the connection; what the other side has not read is dropped."""
        if self._transport:
            self._transport.abort()

    async def _wait(self) -> None:
        """Wait until more has arrived."""
        assert self._transport is not None  # noqa: S101 - made by `over`
        self._transport.resume_reading()
        self._more = asyncio.get_running_loop().create_future()
        try:
            await self._more
        finally:
            self._more = None

    def _wake(self) -> None:
        if self._more and not self._more.done():
            self._more.set_result(None)

    # -- called by the transport --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._came += data
        self._wake()
        if len(self._came) > self._bytes_max and self._transport:
            self._transport.pause_reading()  # who floods waits in their own socket

    def eof_received(self) -> bool:
        self._over = True
        self._wake()
        return True  # the other side may still read: the owner of the channel closes it

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._over = True
        self._room.set()
        self._wake()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()
