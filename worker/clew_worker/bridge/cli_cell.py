"""The bridge's side of its CLI's cell: files in, a running CLI with the lines that it prints out.

What runs there is not trusted: whatever is no valid answer ends the bridge with CellGoneError. The wire between it and
the starter in the cell is SOCK_SEQPACKET, with one JSON message a packet:

bridge                              starter
                        <- CliReady + [listener]        once
PutFiles                ->                              as often as needed, before a start
StartCli + [stdout, run]->

`run` is a socket of its own: hanging up there ends the CLI. CliEnded comes when all that it had started has ended.
"""

import asyncio
import math
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Literal, Self

from pydantic import Field

from clew_shared.files import closing
from clew_shared.files.pipes import PipeReader
from clew_shared.wire.framing import WireMessage, encode, reader

LINE_BYTES_MAX = 1 << 20  # what is longer is cut: such a line is no event that matters
ANSWER_TIMEOUT_S, CHUNK = 30.0, 1 << 16
# for output after its end, and in all: what could not be ended may hold it open
DRAIN_S, LEFT_S = 0.5, 10.0


# ---- the messages

# what a packet holds where the system's limits for sockets are the usual ones
PACKET_BYTES_MAX = 180 * 1024
PLACE, PLACE_BYTES_MAX = ".clew/conversation.json", 16 * 1024


class PutFiles(WireMessage):
    """Write files into HOME, mode 0600, by their path in it; with `kept` remove everything but that first."""

    type: Literal["put"] = "put"
    files: dict[str, str] = Field(repr=False)
    kept: tuple[str, ...] | None = None


class StartCli(WireMessage):
    """Start the CLI; `env` is its whole environment. Comes with its standard output, and with `run`."""

    type: Literal["start"] = "start"
    argv: tuple[str, ...]
    env: dict[str, str] = Field(repr=False)
    stdin: str = Field(default="", repr=False)
    back: tuple[str, ...] = ()  # files in HOME to be sent back at its end


class CliReady(WireMessage):
    """The cell is confined. Comes with the socket that the relay connects to; `token` is what it sends first."""

    program: str
    home: str
    tmp: str
    relay: tuple[str, ...]
    token: str = Field(default="", repr=False)
    conversation: str = Field(default="", repr=False)  # what is at PLACE, "" for no small file


class CliEnded(WireMessage):
    """How the CLI has ended, `code` as a shell gives it, and its last complaints; or why it could not start.

    `files` are the texts of those that were asked back, without the largest where they do not fit in a packet.
    """

    code: int = 0
    errors: str = ""
    files: dict[str, str] = Field(default_factory=dict, repr=False)
    fault: str = ""
    temporary: bool = False  # a later try may work


Order = PutFiles | StartCli
read_order: Callable[[bytes], Order] = reader(Order)


def packet(message: WireMessage) -> bytes:
    """Pack a message; OversizedMessageError beyond PACKET_BYTES_MAX."""
    what = f"{type(message).__name__}:"
    return encode(message, PACKET_BYTES_MAX, what=what, remedy=" go in one packet")


# ---- the bridge's end


class CellGoneError(Exception):
    """The CLI's cell has ended, or does not answer."""


class CliRun:
    """One run of the CLI; `ended` is the task that waits for its end."""

    def __init__(self, stdout: int, channel: socket.socket) -> None:
        self.bytes_read = 0
        self.ended = asyncio.create_task(self._end())
        self._stdout, self._channel, self._until = stdout, channel, math.inf
        channel.setblocking(False)

    async def _end(self) -> CliEnded:
        try:
            loop = asyncio.get_running_loop()
            packet = await loop.sock_recv(self._channel, PACKET_BYTES_MAX)
            return CliEnded.model_validate_json(packet)
        except (OSError, ValueError) as error:
            raise CellGoneError("the CLI's cell has ended") from error
        finally:
            self._channel.close()

    @property
    def end(self) -> CliEnded | None:
        """How it ended; None while it runs, or where its cell has ended with it."""
        ended = self.ended
        known = ended.done() and not ended.cancelled() and not ended.exception()
        return ended.result() if known else None

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of its standard output, without their ends, until it is closed."""
        async with PipeReader(self._stdout) as pipe:
            rest = b""
            while data := await self._next(pipe):
                self.bytes_read += len(data)
                *whole, rest = (rest + data).split(b"\n")
                for line in whole:
                    yield line[:LINE_BYTES_MAX]
                rest = rest[: LINE_BYTES_MAX + 1]
            if rest:
                yield rest[:LINE_BYTES_MAX]

    async def _next(self, pipe: PipeReader) -> bytes:
        reading = asyncio.create_task(pipe.read(CHUNK))
        try:
            await asyncio.wait((reading, self.ended), return_when=asyncio.FIRST_COMPLETED)
            now = time.monotonic()
            if self.ended.done():
                self._until = min(self._until, now + LEFT_S)
            left_s = min(DRAIN_S, self._until - now)
            await asyncio.wait((reading,), timeout=max(0, left_s))
            return reading.result() if reading.done() and left_s > 0 else b""
        finally:
            reading.cancel()

    async def stop(self) -> None:
        if not self.ended.done():
            self._channel.shutdown(socket.SHUT_WR)
            await asyncio.wait((self.ended,), timeout=ANSWER_TIMEOUT_S)


class CliCell:
    """The cell of a bridge's CLI; use it as `async with`; raises CellGoneError."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.setblocking(False)

    async def __aenter__(self) -> Self:
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._sock, readable.set)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await readable.wait()
            data, fds, _, _ = socket.recv_fds(self._sock, PACKET_BYTES_MAX, 1)
            self.ready = CliReady.model_validate_json(data)
            self.listener = socket.socket(fileno=fds[0])
        except (OSError, ValueError, IndexError) as error:
            raise CellGoneError("the CLI's cell has ended, or does not answer") from error
        finally:
            loop.remove_reader(self._sock)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sock.close()

    async def put(self, files: Mapping[str, str], kept: tuple[str, ...] | None = None) -> None:
        """Write files into HOME, a packet each; with `kept` it is emptied but for these paths before."""
        if kept is not None:
            await self._send(PutFiles(files={}, kept=kept))
        for name, text in files.items():
            await self._send(PutFiles(files={name: text}))

    async def start(
        self, argv: tuple[str, ...], env: Mapping[str, str], stdin: str, back: tuple[str, ...]
    ) -> CliRun:
        """Start the CLI; whether that has failed is said by the end of the run, which brings the files `back`."""
        out, out_w = os.pipe2(os.O_CLOEXEC)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        run = CliRun(out, ours)
        with theirs, closing(out_w):
            order = StartCli(argv=argv, env=dict(env), stdin=stdin, back=back)
            await self._send(order, out_w, theirs.fileno())
        return run

    async def _send(self, message: WireMessage, *fds: int) -> None:
        loop, writable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self._sock, writable.set)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await writable.wait()
            socket.send_fds(self._sock, [packet(message)], fds)
        except OSError as error:
            raise CellGoneError("the CLI's cell has ended, or reads nothing") from error
        finally:
            loop.remove_writer(self._sock)
