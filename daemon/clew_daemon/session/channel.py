"""The daemon's end of the worker protocol: bounded reading and writing, with a deadline on every write.

It frames and times; what a message means is decided elsewhere. Every step passes here, so messages are taken from the
transport without a stream in between, and an answer goes to the socket at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from clew_shared.wire import protocol

if TYPE_CHECKING:
    import socket

WRITE_TIMEOUT_S = 30.0


class Channel(asyncio.Protocol):
    """A connected stream to one agent; one task receives.

    `unread` says that the agent left an answer unread too long.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._transport: asyncio.Transport | None = None
        self._came = bytearray()
        self._searched = 0  # bytes of it, without an end of a line
        self._over = False  # nothing more will come
        self._more: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.unread = False

    @classmethod
    async def over(cls, sock: socket.socket) -> Channel:
        """Take over a connected, non-blocking socket."""
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_connection(lambda: cls(sock), sock=sock)
        return channel

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, None at the end; raises ProtocolError on a broken line."""
        while (end := self._came.find(b"\n", self._searched)) < 0:
            self._searched = len(self._came)
            if self._searched > protocol.LINE_BYTES_MAX:
                message = f"a line of over {protocol.LINE_BYTES_MAX} bytes"
                raise protocol.ProtocolError(message, protocol.PARSE_ERROR)
            if self._over and self._came.strip():
                raise protocol.ProtocolError("the last line has no end", protocol.PARSE_ERROR)
            if self._over:
                return None
            await self._wait()
        line = bytes(self._came[: end + 1])
        del self._came[: end + 1]
        self._searched = 0
        return protocol.parse(line)

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
        if len(self._came) > protocol.LINE_BYTES_MAX and self._transport:
            self._transport.pause_reading()  # an agent that floods waits in its own socket

    def eof_received(self) -> bool:
        self._over = True
        self._wake()
        return True  # it may still read; the session closes

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._over = True
        self._room.set()
        self._wake()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()
