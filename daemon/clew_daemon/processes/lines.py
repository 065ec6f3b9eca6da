"""The daemon's end of a socket to an agent or an executor: bounded reading and writing, with a deadline on every write.

It frames and times; what a line means is decided elsewhere.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Self, cast

WRITE_TIMEOUT_S = 30.0


class LineError(Exception):
    """A line is too long."""


class CutLineError(LineError):
    """The last line has no end."""


class LineChannel(asyncio.Protocol):
    """A stream of lines of at most `bytes_max` bytes; one task receives. `unread`: one was left unread too long."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._take: Callable[[bytes | None], None] = self._keep
        self._lines: deque[bytes] = deque()
        self._kept = 0  # bytes of them
        self._rest, self._searched = bytearray(), 0
        self._paused = self.unread = self.ended = False
        self.fault: LineError | None = None
        self._comes: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._transport: asyncio.Transport

    @classmethod
    async def over(cls, sock: socket.socket, bytes_max: int) -> Self:
        """Take over a connected, non-blocking socket."""
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(lambda: cls(bytes_max), sock=sock))[1]

    def give(self, take: Callable[[bytes | None], None]) -> None:
        """Pass each line on as it comes, and None at the end of all, from now on."""
        self._take = take
        while self._lines:
            take(self._lines.popleft())
        if self.ended:
            take(None)
        self._read_on()

    async def receive(self) -> bytes | None:
        """Return the next line with its end, None at the end of all; raises LineError."""
        while not self._lines:
            if self.fault:
                raise self.fault
            if self.ended:
                return None
            self._read_on()
            self._comes = asyncio.get_running_loop().create_future()
            await self._comes
        self._kept -= len(self._lines[0])
        return self._lines.popleft()

    def write(self, line: bytes) -> None:
        """Send one line, or keep it until the other side reads; nothing where that is gone."""
        if not self.closed:
            self._transport.write(line)

    async def send(self, line: bytes) -> bool:
        """Send one line; False if the other side is gone or does not read."""
        self.write(line)
        if not self._room.is_set():
            try:
                async with asyncio.timeout(WRITE_TIMEOUT_S):
                    await self._room.wait()
            except TimeoutError:
                self.unread = True
                return False
        return not self.closed

    @property
    def closed(self) -> bool:
        """It was closed on this side, or the other one is gone."""
        return self._transport.is_closing()

    def close(self) -> None:
        """End the connection; what the other side has not read is dropped."""
        self._transport.abort()

    def _keep(self, line: bytes | None) -> None:
        """Keep a line until it is received; once `bytes_max` are kept the rest waits in the socket.

        What waits there is lost with a side that leaves without reading its answers.
        """
        if line:
            self._lines.append(line)
            self._kept += len(line)
        if self._comes and not self._comes.done():
            self._comes.set_result(None)
        if self._kept > self._bytes_max and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if self._paused and not (self.ended or self.closed):
            self._paused = False
            self._transport.resume_reading()

    def _end(self, fault: LineError | None = None) -> None:
        if not self.ended:
            self.ended, self.fault = True, fault
            self._transport.pause_reading()  # one that floods waits
            self._take(None)

    # -- what the loop tells -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._rest += data
        while 0 < (end := self._rest.find(b"\n", self._searched) + 1) <= self._bytes_max + 1:
            line = bytes(self._rest[:end])
            del self._rest[:end]
            self._searched = 0
            self._take(line)
        self._searched = end or len(self._rest)
        if self._searched > self._bytes_max:
            self._end(LineError(f"a line of over {self._searched} bytes"))

    def eof_received(self) -> bool:
        self._end(CutLineError("the last line has no end") if self._rest.strip() else None)
        return True  # the other side may still read

    def connection_lost(self, exc: Exception | None) -> None:
        """Take a lost connection for the end: what came before it is still to be read."""
        del exc
        self.eof_received()
        self._room.set()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()
