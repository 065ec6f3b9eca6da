"""One nursery process, the zygote, and the socket to it: launched, asked for cells, ended.

Whether and when such a process is replaced is decided in `nursery`.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import socket
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from typing import Self

import structlog

from clew_daemon.processes.children import Child, Children
from clew_shared.text.plain import plain
from clew_shared.wire.nursery import (
    PACKET_BYTES_MAX,
    CellSpec,
    NurseryHello,
    NurseryMessage,
    Spawn,
    Spawned,
    SpawnFailed,
    is_shortage,
    read_from_nursery,
    to_packet,
)

log = structlog.get_logger()

VERSION = version("clew")
"""The version of the running code, whatever has been installed meanwhile."""

READY_TIMEOUT_S = 60.0
SPAWN_TIMEOUT_S = 30.0
"""A nursery gives up on a cell that does not start after a third of that; one that does not answer hangs."""

KILL_WAIT_S = 5.0


class NurseryGone(Exception):
    """The process has ended, hangs, or sent something that is not a message."""


@dataclass(frozen=True, slots=True)
class ZygoteLaunch:
    """A process that is importing what cells need, and the socket to it."""

    process: subprocess.Popen[bytes]
    line: socket.socket

    def give_up(self) -> None:
        """End the process and wait for it; harmless if a `Zygote` has taken it over and it has ended."""
        self.line.close()
        self.process.kill()  # Popen checks first whether it has been reaped
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(KILL_WAIT_S)


def launch(env: dict[str, str], preload: tuple[str, ...]) -> ZygoteLaunch:
    """Start a process, in the main thread (PDEATHSIG), without waiting for it; raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    fd = theirs.fileno()
    command = [sys.executable, "-P", "-m", "clew_worker.cell.nursery", str(fd), *preload]
    try:
        with theirs:
            process = subprocess.Popen(
                command, pass_fds=[fd], env=env, stdin=subprocess.DEVNULL, cwd="/"
            )
    except OSError:
        ours.close()
        raise
    return ZygoteLaunch(process, ours)


class Zygote:
    """A warm process that cells are forked from."""

    def __init__(self, launched: ZygoteLaunch, child: Child) -> None:
        self._process = launched.process  # held, since Popen reaps when it is collected
        self._line = launched.line
        self.child = child
        self._next = 0
        self._asked: dict[int, asyncio.Future[Spawned | SpawnFailed]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self._lost = False
        self.hello: NurseryHello | None = None

    @classmethod
    async def start(cls, children: Children, launched: ZygoteLaunch) -> Self:
        """Wait until a launched process is warm; raises OSError or NurseryGone."""
        zygote = cls(launched, children.watch(launched.process.pid))
        try:
            await zygote._greet(children)
        except BaseException:
            await zygote.end(at_once=True)
            raise
        return zygote

    async def _greet(self, children: Children) -> None:
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                hello = await self._receive()
        except (OSError, TimeoutError, ValueError) as error:
            raise NurseryGone(f"it did not start: {plain(error)}") from None
        if not isinstance(hello, NurseryHello):
            raise NurseryGone("it did not start: its first message was not the expected one")
        if hello.version != VERSION:
            raise NurseryGone(
                f"clew {hello.version} is installed, this is {VERSION}: restart the daemon"
            )
        self.hello = hello
        self._reading = asyncio.ensure_future(self._read(children))

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        ended = self.child.ended.done() or self._reading is None or self._reading.done()
        return not (ended or self._lost)

    async def ask(self, spec: CellSpec, fds: list[int]) -> Spawned | SpawnFailed:
        """Ask for a cell with these descriptors.

        Raises NurseryGone, ValueError for a spec that is too long, OSError if resources for sending it have run out.
        """
        self._next += 1
        number = self._next
        request = to_packet(Spawn(id=number, spec=spec))
        answer: asyncio.Future[Spawned | SpawnFailed] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            async with asyncio.timeout(SPAWN_TIMEOUT_S):
                async with self._sending:  # one at a time waits for room in the socket
                    await _send(self._line, request, fds)
                return await answer
        except OSError as error:
            if is_shortage(error):
                raise
            self._lost = True
            self.child.kill()
            late = isinstance(error, TimeoutError)
            raise NurseryGone(
                f"no answer for {SPAWN_TIMEOUT_S:g} s" if late else plain(error)
            ) from None
        finally:
            del self._asked[number]

    async def end(self, *, at_once: bool = False) -> None:
        """End it; cells go on, and spawns under way are waited for.

        Legal at any time, also twice.
        """
        if not at_once and self._asked and self.alive:
            await asyncio.wait(list(self._asked.values()), timeout=SPAWN_TIMEOUT_S)
        if self._reading:
            self._reading.cancel()
            # off the loop before the descriptor's number is used again
            await asyncio.wait([self._reading])
        self._line.close()  # it exits when this closes
        if at_once:
            self.child.kill()
        done, _ = await asyncio.wait([self.child.ended], timeout=KILL_WAIT_S)
        if not done:
            self.child.kill()
            await asyncio.wait([self.child.ended], timeout=KILL_WAIT_S)
        self._process.returncode = self._process.returncode or 0  # reaped by `Children`

    async def _read(self, children: Children) -> None:
        """Pass on what it sends, until its end."""
        fault = "it has ended"
        try:
            while True:
                match await self._receive():
                    case Spawned() | SpawnFailed() as answer:
                        self._answered(answer, children)
        except (OSError, ValueError) as error:
            fault = plain(error)
            self.child.kill()
        finally:
            for waiting in self._asked.values():
                if not waiting.done():
                    waiting.set_exception(NurseryGone(fault))

    def _answered(self, answer: Spawned | SpawnFailed, children: Children) -> None:
        waiting = self._asked.get(answer.id)
        if waiting and not waiting.done():
            waiting.set_result(answer)
        elif isinstance(answer, Spawned):  # the one who asked has given up
            children.watch(answer.guard_pid).kill()

    async def _receive(self) -> NurseryMessage:
        loop = asyncio.get_running_loop()
        data = await loop.sock_recv(self._line, PACKET_BYTES_MAX)
        if not data:
            raise ConnectionResetError("its socket was closed")
        return read_from_nursery(data)


async def _send(sock: socket.socket, data: bytes, fds: list[int]) -> None:
    """Send one packet with descriptors; wait while the socket is full."""
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
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
