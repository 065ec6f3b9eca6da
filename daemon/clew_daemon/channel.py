"""The agent's line of the worker protocol: bounded reading and writing, with a deadline on every write.

It frames and times; what a message means is the session's.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from clew_shared import protocol

if TYPE_CHECKING:
    import socket

WRITE_TIMEOUT_S = 30.0


class Channel:
    """A connected stream to one agent.

    `heard_at` is monotonic, of the last byte that came; `unread` says that it left an answer unread too long.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.heard_at = time.monotonic()
        self.unread = False

    @classmethod
    async def over(cls, sock: socket.socket) -> Channel:
        """Take over a connected, non-blocking socket."""
        reader, writer = await asyncio.open_connection(sock=sock, limit=protocol.LINE_BYTES_MAX + 1)
        return cls(reader, writer)

    async def receive(self) -> dict[str, Any] | None:
        """Give the next message, None at the end; raises ProtocolError on a broken line."""
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            if error.partial.strip():
                raise protocol.ProtocolError(
                    "the last line has no end", protocol.PARSE_ERROR
                ) from None
            return None
        except asyncio.LimitOverrunError:
            message = f"a line of over {protocol.LINE_BYTES_MAX} bytes"
            raise protocol.ProtocolError(message, protocol.PARSE_ERROR) from None
        except ConnectionError:
            return None
        self.heard_at = time.monotonic()
        return protocol.parse(line)

    async def send(self, line: bytes) -> bool:
        """Send one line; False where the other side is gone or does not read."""
        if self._writer.is_closing():
            return False
        try:
            self._writer.write(line)
            if self._writer.transport.get_write_buffer_size() == 0:
                return True  # the usual case: the socket took it
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await self._writer.drain()
        except TimeoutError:  # an OSError, too
            self.unread = True
            return False
        except OSError:
            return False
        return True

    def close(self) -> None:
        """End the connection; what the other side has not read is dropped."""
        self._writer.transport.abort()
