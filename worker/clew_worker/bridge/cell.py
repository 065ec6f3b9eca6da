"""The bridge's side of its CLI's cell: files in, a running CLI with the lines that it prints out."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self

from clew_shared.files.pipes import PipeReader
from clew_worker.bridge import wire
from clew_worker.bridge.wire import CliEnded, CliReady, CliStarted, FromStarter, PutFiles, ToStarter

LINE_BYTES_MAX = 1 << 20
"""What is longer is cut: such a line is no event that matters."""

ANSWER_TIMEOUT_S = 30.0
TAIL_BYTES, _CHUNK = 4_000, 1 << 16
DRAIN_S, LEFT_S = 0.5, 10.0
"""How long a pipe is read after the CLI's end if nothing comes, and altogether: what it left may hold it open."""


class CellGoneError(Exception):
    """The CLI's cell has ended, or does not answer."""


class CliFaultError(Exception):
    """The CLI cannot be started; the text says why."""


class CliRun:
    """One run of the CLI."""

    def __init__(self, pid: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.bytes_read = 0
        self.ended: asyncio.Future[CliEnded] = asyncio.get_running_loop().create_future()
        self._stdout, self._stderr = stdout, stderr
        self._tail = b""
        self._until = 0.0

    @property
    def code(self) -> int | None:
        """How it ended, as a shell gives it; None while it runs, or where its cell has ended with it."""
        ended = self.ended
        known = ended.done() and not ended.cancelled() and not ended.exception()
        return ended.result().code if known else None

    @property
    def errors(self) -> str:
        """The end of what it printed to standard error."""
        return self._tail.decode(errors="replace").strip()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of its standard output, without their ends, until it is closed."""
        listening = asyncio.create_task(self._listen())
        try:
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
            await listening
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _next(self, pipe: PipeReader) -> bytes:
        reading = asyncio.ensure_future(pipe.read(_CHUNK))
        first: tuple[asyncio.Future[Any], ...] = (reading, self.ended)
        try:
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if self.ended.done():
                self._until = self._until or time.monotonic() + LEFT_S
                left_s = max(0.0, min(DRAIN_S, self._until - time.monotonic()))
                await asyncio.wait([reading], timeout=left_s)
            return reading.result() if reading.done() else b""
        finally:
            reading.cancel()

    async def _listen(self) -> None:
        async with PipeReader(self._stderr) as pipe:
            while data := await self._next(pipe):
                self._tail = (self._tail + data)[-TAIL_BYTES:]


class CliCell:
    """The cell of a bridge's CLI; use it as `async with`. One request at a time; raises CellGoneError."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.setblocking(False)
        self._asking = asyncio.Lock()
        self._answers: asyncio.Queue[tuple[FromStarter, list[int]] | None] = asyncio.Queue()
        self._run: CliRun | None = None

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._sock, self._readable)
        message, fds = await self._answer()
        if not isinstance(message, CliReady) or len(fds) != 1:
            raise CellGoneError("the CLI's cell did not start")
        self.ready = message
        self.listener = socket.socket(fileno=fds[0])
        return self

    async def __aexit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._sock)
        self._sock.close()

    async def put(self, files: Mapping[str, str], kept: tuple[str, ...] | None = None) -> None:
        """Write files into HOME, a packet each; with `kept` it is emptied but for these paths before."""
        if kept is not None:
            await self._send(PutFiles(files={}, kept=kept))
        for name, text in files.items():
            await self._send(PutFiles(files={name: text}))

    async def read(self, path: str) -> str | None:
        """Return the text of a small file in HOME, None where there is none."""
        message = await self._ask(wire.ReadFile(path=path))
        if not isinstance(message, wire.FileRead):
            raise CellGoneError("the CLI's cell gave a wrong answer")
        return message.text

    async def start(self, argv: tuple[str, ...], env: Mapping[str, str], stdin: str = "") -> CliRun:
        """Start the CLI; raises CliFaultError where it cannot be started."""
        message = await self._ask(wire.StartCli(argv=argv, env=dict(env), stdin=stdin))
        if isinstance(message, CliEnded):
            raise CliFaultError(message.fault)
        if not isinstance(message, CliStarted) or self._run is None:
            raise CellGoneError("the CLI's cell gave a wrong answer")
        return self._run

    async def stop(self) -> None:
        """End the running CLI, and wait for its end."""
        run = self._run
        if run is None or run.ended.done():
            return
        await self._send(wire.StopCli())
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            await asyncio.wait([run.ended])

    async def _ask(self, message: ToStarter) -> FromStarter:
        async with self._asking:
            await self._send(message)
            return (await self._answer())[0]

    async def _send(self, message: ToStarter) -> None:
        try:
            await asyncio.get_running_loop().sock_sendall(self._sock, wire.packet(message))
        except OSError as error:
            raise CellGoneError("the CLI's cell has ended") from error

    async def _answer(self) -> tuple[FromStarter, list[int]]:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                answer = await self._answers.get()
        except TimeoutError:
            raise CellGoneError("the CLI's cell does not answer") from None
        if answer is None:
            raise CellGoneError("the CLI's cell has ended")
        return answer

    def _readable(self) -> None:
        """Take one packet: the end of a run, or an answer. What runs there is not trusted."""
        try:
            data, fds, _, _ = socket.recv_fds(self._sock, wire.PACKET_BYTES_MAX, 2)
            message = wire.read_report(data)
        except BlockingIOError:
            return
        except (OSError, ValueError):  # it has ended, or is none of ours
            self._hung_up()
            return
        for fd in fds:
            os.set_inheritable(fd, False)
        if isinstance(message, CliStarted) and len(fds) == 2:
            self._run = CliRun(message.pid, *fds)  # at once: its end may be the next packet
        run = self._run
        if isinstance(message, CliEnded) and not message.fault and run and not run.ended.done():
            run.ended.set_result(message)
        else:
            self._answers.put_nowait((message, fds))

    def _hung_up(self) -> None:
        asyncio.get_running_loop().remove_reader(self._sock)
        self._answers.put_nowait(None)
        if self._run and not self._run.ended.done():
            self._run.ended.set_exception(CellGoneError("the CLI's cell has ended"))
