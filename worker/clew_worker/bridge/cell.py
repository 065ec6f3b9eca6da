"""The bridge's side of its CLI's cell: files in, a running CLI with the lines that it prints out.

What runs there is not trusted: whatever is no valid answer ends the bridge with CellGoneError.
"""

import asyncio
import math
import os
import socket
import time
from collections.abc import AsyncIterator, Mapping
from typing import Self

from clew_shared.files import closing
from clew_shared.files.pipes import PipeReader
from clew_shared.wire.framing import WireMessage
from clew_worker.bridge import wire
from clew_worker.bridge.wire import CliEnded, PutFiles

LINE_BYTES_MAX = 1 << 20  # what is longer is cut: such a line is no event that matters
ANSWER_TIMEOUT_S, CHUNK = 30.0, 1 << 16
DRAIN_S, LEFT_S = 0.5, 10.0
"""How long its output is waited for after its end, and read in all: what could not be ended may hold it open."""


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
        loop = asyncio.get_running_loop()
        try:
            data = await loop.sock_recv(self._channel, wire.PACKET_BYTES_MAX)
            return CliEnded.model_validate_json(data)
        except (OSError, ValueError) as error:
            raise CellGoneError("the CLI's cell has ended") from error
        finally:
            self._channel.close()

    @property
    def code(self) -> int | None:
        """How it ended, as a shell gives it; None while it runs, or where its cell has ended with it."""
        ended = self.ended
        known = ended.done() and not ended.cancelled() and not ended.exception()
        return ended.result().code if known else None

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
            data, fds, _, _ = socket.recv_fds(self._sock, wire.PACKET_BYTES_MAX, 1)
            self.ready = wire.CliReady.model_validate_json(data)
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

    async def start(self, argv: tuple[str, ...], env: Mapping[str, str], stdin: str = "") -> CliRun:
        """Start the CLI; whether that has failed is said by the end of the run."""
        out, out_w = os.pipe2(os.O_CLOEXEC)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        run = CliRun(out, ours)
        with theirs, closing(out_w):
            order = wire.StartCli(argv=argv, env=dict(env), stdin=stdin)
            await self._send(order, out_w, theirs.fileno())
        return run

    async def _send(self, message: WireMessage, *fds: int) -> None:
        loop, writable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self._sock, writable.set)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await writable.wait()
            socket.send_fds(self._sock, [wire.packet(message)], fds)
        except OSError as error:
            raise CellGoneError("the CLI's cell has ended, or reads nothing") from error
        finally:
            loop.remove_writer(self._sock)
