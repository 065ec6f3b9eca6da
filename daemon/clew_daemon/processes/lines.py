"""The daemon's end of a socket to an agent or an executor: bounded reading and writing, with a deadline on every write.

It frames and times; what a line means is decided elsewhere.
"""

import asyncio
import socket
from typing import Self

WRITE_TIMEOUT_S = 30.0


class LineError(Exception):
    """A line is too long."""


class CutLineError(LineError):
    """The last line has no end."""


class _Reader(asyncio.StreamReader):
    def set_exception(self, exc: Exception) -> None:
        """Take a lost connection for the end: what came before it is still to be read."""
        del exc
        self.feed_eof()


class LineChannel:
    """A stream of lines of at most `bytes_max` bytes; one task receives. `unread`: one was left unread too long."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.unread = False

    @classmethod
    async def over(cls, sock: socket.socket, bytes_max: int) -> Self:
        """Take over a connected, non-blocking socket."""
        loop = asyncio.get_running_loop()
        reader = _Reader(limit=bytes_max)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.create_connection(lambda: protocol, sock=sock)
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def receive(self) -> bytes | None:
        """Return the next line with its end, None at the end of all; raises LineError."""
        try:
            return await self._reader.readuntil()
        except asyncio.LimitOverrunError as error:
            raise LineError(f"a line of over {error.consumed} bytes") from None
        except asyncio.IncompleteReadError as error:
            if error.partial.strip():
                raise CutLineError("the last line has no end") from None
            return None

    async def send(self, line: bytes) -> bool:
        """Send one line; False if the other side is gone or does not read."""
        if self.closed:
            return False
        self._writer.write(line)
        if not self._writer.transport.get_write_buffer_size():
            return not self.closed
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await self._writer.drain()
        except OSError as error:
            self.unread = self.unread or isinstance(error, TimeoutError)
            return False
        return not self.closed

    @property
    def closed(self) -> bool:
        """It was closed on this side, or the other one is gone."""
        return self._writer.is_closing()

    def close(self) -> None:
        """End the connection; what the other side has not read is dropped."""
        self._writer.transport.abort()
