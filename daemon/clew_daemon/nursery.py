"""The daemon's side of the nursery: asks the warm template for cells, and renews it when it dies.

What runs in a cell, and how it is confined, is the worker's; see `clew_shared.cellwire` for the wire.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from clew_shared import cellwire
from clew_shared.cellwire import CellSpec, NurseryHello, SandboxReport, Spawned, SpawnFailed

if TYPE_CHECKING:
    from clew_daemon.cgroups import Leaf
    from clew_daemon.children import Child, Children

log = structlog.get_logger()

READY_TIMEOUT_S = 60.0
SPAWN_TIMEOUT_S = 60.0
KILL_WAIT_S = 5.0


class SpawnError(Exception):
    """A cell could not be started; `reason` is `sandbox`, `exec`, `resources` or `spawn`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(slots=True)
class Cell:
    """A running cell: guard and payload; when the guard has ended, nothing of it is left."""

    guard: Child
    pid: int
    isolation: str
    warnings: tuple[str, ...]
    children: Children
    group: Leaf | None = None

    def strike(self) -> None:
        """Send the whole tree its end, and wait for nothing."""
        if self.group:
            self.group.kill()
        else:
            gentle = self.isolation == "guard"  # the guard ends its tree itself when asked
            self.guard.kill(signal.SIGTERM if gentle else signal.SIGKILL)

    async def kill(self) -> int:
        """End the whole tree, and wait for it; gives the exit code."""
        self.strike()
        done, _ = await asyncio.wait([self.guard.ended], timeout=KILL_WAIT_S)
        if not done:
            self.guard.kill()
            await asyncio.wait([self.guard.ended], timeout=KILL_WAIT_S)
        self.children.sweep()
        if self.group:
            await self.group.end()
        return self.guard.ended.result() if self.guard.ended.done() else 255


class Nursery:
    """One template process; `start` and `stop` may be called at any time, also twice."""

    def __init__(self, children: Children, env: dict[str, str], preload: tuple[str, ...]) -> None:
        self._children = children
        self._env = env
        self._preload = preload
        self._socket: socket.socket | None = None
        self._child: Child | None = None
        self._process: subprocess.Popen[bytes] | None = None  # kept: Popen reaps when collected
        self._lock = asyncio.Lock()
        self._next = 0
        self.report: SandboxReport | None = None

    async def start(self) -> None:
        """Start the template and wait until it is warm; raises SpawnError."""
        async with self._lock:
            await self._ensure()

    async def stop(self) -> None:
        """End the template, with what it has in store; cells go on."""
        self._drop()  # it ends by itself
        if self._child:
            done, _ = await asyncio.wait([self._child.ended], timeout=KILL_WAIT_S)
            if not done:
                self._child.kill()
                await asyncio.wait([self._child.ended], timeout=KILL_WAIT_S)

    async def spawn(
        self, spec: CellSpec, channel: int, log_fd: int | None, group: Leaf | None = None
    ) -> Cell:
        """Start a cell with these descriptors, which stay the caller's to close; raises SpawnError.

        Its first process enters `group` before it does anything else; if it cannot start, the group
        stays the caller's to end.
        """
        if group:
            spec = spec.model_copy(update={"cgroup": str(group.path)})
        async with self._lock:
            self._children.spawning += 1
            try:
                return await self._spawn(spec, channel, log_fd, group)
            finally:
                self._children.spawning -= 1

    async def _spawn(
        self, spec: CellSpec, channel: int, log_fd: int | None, group: Leaf | None
    ) -> Cell:
        await self._ensure()
        assert self._socket is not None  # noqa: S101 - what `_ensure` promises
        self._next += 1
        request = cellwire.packet(cellwire.Spawn(id=self._next, spec=spec))
        fds = [channel] if log_fd is None else [channel, log_fd]
        try:
            await _send(self._socket, request, fds)
            answer = await self._answer()
        except (OSError, TimeoutError, EOFError, ValueError) as error:
            if self._child:
                self._child.kill()
            self._drop()
            raise SpawnError("spawn", f"the nursery is gone ({error}); it is renewed") from None
        if isinstance(answer, SpawnFailed):
            if answer.guard_pid:
                await asyncio.wait(
                    [self._children.watch(answer.guard_pid).ended], timeout=KILL_WAIT_S
                )
            raise SpawnError(answer.reason, answer.message)
        guard = self._children.watch(answer.guard_pid)
        return Cell(guard, answer.pid, answer.isolation, answer.warnings, self._children, group)

    async def _answer(self) -> Spawned | SpawnFailed:
        """Read the answer to the last request; older ones (of a spawn given up) are ended."""
        while True:
            message = await self._receive(SPAWN_TIMEOUT_S)
            if not isinstance(message, Spawned | SpawnFailed):
                continue
            if message.id == self._next:
                return message
            if isinstance(message, Spawned):
                self._children.watch(message.guard_pid).kill()

    async def _receive(self, timeout_s: float) -> NurseryHello | Spawned | SpawnFailed:
        assert self._socket is not None  # noqa: S101 - callers hold a started nursery
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_s):
            data = await loop.sock_recv(self._socket, cellwire.PACKET_BYTES_MAX)
        if not data:
            raise EOFError("end of its socket")
        return cellwire.read_from_nursery(data)

    async def _ensure(self) -> None:
        if self._socket and self._child and not self._child.ended.done():
            return
        self._drop()
        self._child = None
        try:
            self._child = self._begin()
        except OSError as error:
            reason = "resources" if cellwire.is_shortage(error) else "spawn"
            raise SpawnError(reason, f"the nursery: {error.strerror or error}") from error
        try:
            hello = await self._receive(READY_TIMEOUT_S)
        except (OSError, TimeoutError, EOFError, ValueError) as error:
            self._child.kill()
            self._drop()
            raise SpawnError("spawn", f"the nursery did not start: {error}") from None
        if isinstance(hello, NurseryHello):
            self.report = hello.sandbox
            log.debug("nursery.ready", pid=hello.pid, preloaded=list(hello.preloaded))

    def _begin(self) -> Child:
        """Start the template process; raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._socket = ours  # closed by `_drop` where the process cannot be started
        with theirs:
            fd = theirs.fileno()
            command = [sys.executable, "-P", "-m", "clew_worker.nursery", str(fd), *self._preload]
            self._process = subprocess.Popen(  # a vfork, of the main thread (PDEATHSIG)
                command, pass_fds=[fd], env=self._env, stdin=subprocess.DEVNULL, cwd="/"
            )
        return self._children.watch(self._process.pid)

    def _drop(self) -> None:
        if self._socket:
            self._socket.close()
        self._socket = None
        if self._process:
            self._process.returncode = self._process.returncode or 0  # reaped by `Children`
        self._process = None


async def _send(sock: socket.socket, data: bytes, fds: list[int]) -> None:
    """Send one packet with descriptors; waits while the socket is full."""
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    async with asyncio.timeout(SPAWN_TIMEOUT_S):
        while True:
            try:
                sock.sendmsg([data], ancillary)
            except BlockingIOError:
                await _writable(sock)
            else:
                return


async def _writable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(sock.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        with contextlib.suppress(OSError, ValueError):
            loop.remove_writer(sock.fileno())
