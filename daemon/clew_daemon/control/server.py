"""The control socket: JSON-RPC 2.0 lines, whose answer may be a stream of lines, in a folder of mode 0700.

The server refuses other users and descendants of the daemon (workers): sockets with a path are outside of every sandbox
(docs/security.md).
"""

import asyncio
import contextlib
import errno
import os
import select
import socket
import stat
import struct
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from clew_daemon.host.folders import FolderError
from clew_shared.ledger.errors import LedgerError
from clew_shared.wire import protocol

CLIENTS_MAX = 64
IDLE_TIMEOUT_S = 60.0
BUSY = "too many clients are connected: end some of them, or try again"

FOLLOWERS_MAX = 16  # Connections with a stream at a time; they have no place among the clients
TOO_MANY_FOLLOWERS = f"{FOLLOWERS_MAX} clients follow already: end one of them, or try again"

STALLED_S = 5.0  # How long a client may take to read one line of a stream; then it is cut off

SO_PEERPIDFD = 77  # asm-generic/socket.h
_UCRED = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer, and the lines that follow it."""

    answer: Mapping[str, object]
    lines: AsyncGenerator[bytes]


Answer = Mapping[str, object] | Stream
Handler = Callable[[Mapping[str, object]], Awaitable[Answer]]


class ControlError(Exception):
    """The request cannot be carried out; the message is for the person who sent it."""


_sender: ContextVar[Any] = ContextVar("sender", default=None)


def refuse_abandoned() -> None:
    """Raise ControlError if the sender of the current request has disconnected: it must not be carried out later."""
    if sender := _sender.get():
        gone = select.poll()
        gone.register(sender.fileno(), 0)
        if gone.poll(0):
            raise ControlError("the request was given up")


@dataclass(eq=False)
class Control:
    """Serves `_handlers` by name; `_daemon` returns the pid of the daemon, whose workers are refused, None for none."""

    _path: Path
    _handlers: dict[str, Handler]
    _daemon: Callable[[], int | None] = os.getpid
    _server: asyncio.Server | None = None
    _clients: set[asyncio.Task[None]] = field(default_factory=set)
    _followers: set[asyncio.Task[None]] = field(default_factory=set)
    _refused: int = 0
    _logged_at: float = float("-inf")

    async def start(self) -> None:
        """Listen, replacing the socket of a dead daemon; raises FolderError if the path is something else."""
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(self._path.lstat().st_mode):
                found = f"{self._path} is where the control socket should be"
                raise FolderError(f"{found}: move it away")
            self._path.unlink()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        _bind(sock, self._path)
        self._path.chmod(0o600)
        self._made = self._path.lstat()
        self._server = await asyncio.start_unix_server(
            self._connected, sock=sock, limit=protocol.LINE_BYTES_MAX
        )

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        self._server = None
        tasks = [*self._clients, *self._followers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(self._path.lstat(), self._made):
                self._path.unlink()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - called as one
        try:
            refusal = _refusal(writer.get_extra_info("socket"), self._daemon())
            if refusal or len(self._clients) >= CLIENTS_MAX:
                self._log_refusal(refusal or BUSY)
                writer.write(protocol.error(None, protocol.INVALID_REQUEST, refusal or BUSY))
            else:
                self._clients.add(task)
                await self._serve(reader, writer, task)
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # the client went away or had to; asyncio would log a cancelled task
        finally:
            self._clients.discard(task)
            self._followers.discard(task)
            writer.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        _sender.set(writer.get_extra_info("socket"))
        while True:
            try:
                async with asyncio.timeout(IDLE_TIMEOUT_S):
                    line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                message = f"a line of over {protocol.LINE_BYTES_MAX} bytes"
                writer.write(protocol.error(None, protocol.PARSE_ERROR, message))
                return
            answer, stream = await self._answer(line)
            if stream is not None:
                self._clients.discard(task)
                self._followers.add(task)
                await _follow(answer, stream, reader, writer)
                return
            writer.write(answer)
            async with asyncio.timeout(IDLE_TIMEOUT_S):
                await writer.drain()

    def _log_refusal(self, refusal: str) -> None:
        """Log a refusal, at most one a second: a refused client may try again and again."""
        self._refused += 1
        if (now := time.monotonic()) >= self._logged_at + 1:
            _warn("control.refused", reason=refusal, times=self._refused)
            self._refused, self._logged_at = 0, now

    async def _answer(self, line: bytes) -> tuple[bytes, Stream | None]:
        request_id = None
        try:
            request_id, method, params = protocol.request(protocol.parse(line))
            answer = await self._handler(method, params)(params)
            if not isinstance(answer, Stream):
                return protocol.result(request_id, answer), None
            if len(self._followers) < FOLLOWERS_MAX:
                return protocol.result(request_id, answer.answer), answer
            return protocol.error(request_id, protocol.WRONG_STATE, TOO_MANY_FOLLOWERS), None
        except protocol.ProtocolError as error:
            return protocol.error(request_id or error.request_id, error.code, str(error)), None
        except (ControlError, LedgerError) as error:
            return protocol.error(request_id, protocol.WRONG_STATE, str(error)), None

    def _handler(self, method: str, params: Any) -> Handler:
        handler = self._handlers.get(method)
        if handler is None:
            known = ", ".join(self._handlers)
            raise protocol.ProtocolError(f"no method {method!r}; available: {known}")
        if not isinstance(params, dict):
            raise protocol.ProtocolError(f"{method}: the params must be an object")
        return handler


async def _follow(
    answer: bytes, stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send an answer, then its lines until they end, or the client hangs up, sends anything, or does not read."""

    async def send() -> None:
        async with contextlib.aclosing(stream.lines) as lines:
            await _write(answer, writer)
            async for line in lines:
                await _write(line, writer)

    sending, hung_up = asyncio.ensure_future(send()), asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait((sending, hung_up), return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()
    except TimeoutError:
        _warn("control.cut_off", reason=f"a follower read nothing for {STALLED_S:g} s")
    except LedgerError as error:
        _warn("control.cut_off", reason=str(error))
    finally:
        sending.cancel()
        hung_up.cancel()
        await asyncio.gather(sending, hung_up, return_exceptions=True)
        writer.transport.abort()  # what it did not read must not wait for it


async def _write(line: bytes, writer: asyncio.StreamWriter) -> None:
    if writer.transport.is_closing():  # the client went away; uvloop raises RuntimeError
        raise ConnectionResetError
    writer.write(line)
    async with asyncio.timeout(STALLED_S):
        await writer.drain()


def _warn(event: str, **values: Any) -> None:
    import structlog  # `clew web` serves links in this way, and has no log

    structlog.get_logger().warning(event, **values)


def _bind(sock: socket.socket, path: Path) -> None:
    """Bind, through a descriptor of the folder if the path is too long for a socket address."""
    try:
        sock.bind(str(path))
    except OSError as error:
        if "too long" not in str(error):
            raise
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sock.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
    sock.listen(CLIENTS_MAX)


def _refusal(sock: Any, daemon: int | None) -> str:
    """Return why a caller is refused, "" if it is served.

    A worker is in this process's PID namespace or one below, so a caller without a PID here (0) is none. Root is none
    either if the daemon is an ordinary user: no cell can gain privileges.
    """
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(credentials)
    if uid not in (os.getuid(), 0):
        return f"user {uid} is not the daemon's user"
    if pid == 0 or uid != os.getuid() or daemon is None:
        return ""
    is_worker = _may_be_worker(pid, daemon) or _gone(sock)
    return "workers may not use the control socket" if is_worker else ""


def _gone(sock: Any) -> bool:
    """Return whether the caller has ended, so that its PID may be another's; before Linux 6.5 none counts as ended."""
    try:
        pidfd = sock.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError as error:
        return error.errno == errno.ESRCH
    try:
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        return bool(ended.poll(0))
    finally:
        os.close(pidfd)


def _may_be_worker(pid: int, daemon: int) -> bool:
    """Return whether a process may come from a cell of the daemon; True also if it cannot be examined.

    Every process of a cell has no_new_privs, which cannot be revoked; PID 1 of a container inherits all orphans.
    """
    try:
        descends = any(parent.pid == daemon for parent in psutil.Process(pid).parents())
        return descends and "\nNoNewPrivs:\t0\n" not in Path(f"/proc/{pid}/status").read_text()
    except (psutil.Error, OSError):
        return True
