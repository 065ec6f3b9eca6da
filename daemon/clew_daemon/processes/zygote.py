"""One nursery process and the line to it: started, asked, found to be outdated, let go.

It asks for cells and receives them; whether and when such a process is replaced is decided in `nursery`.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Self

import structlog

from clew_shared.text.plain import plain
from clew_shared.wire.nursery import (
    PACKET_BYTES_MAX,
    CellSpec,
    InStore,
    NurseryHello,
    NurseryMessage,
    Spawn,
    Spawned,
    SpawnFailed,
    read_from_nursery,
    to_packet,
)
from clew_shared.wire.shortage import is_shortage

if TYPE_CHECKING:
    from clew_daemon.processes.children import Child, Children

log = structlog.get_logger()

VERSION = version("clew")
"""Of the code that runs, whatever is installed meanwhile."""

READY_TIMEOUT_S = 60.0
SPAWN_TIMEOUT_S = 30.0
"""A nursery gives a cell that will not start up after a third of that; one that says nothing hangs."""

KILL_WAIT_S = 5.0


class Gone(Exception):
    """The process has ended, hangs, or said what is no message."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A process that imports what cells need, the line to it, and when that began."""

    process: subprocess.Popen[bytes]
    line: socket.socket
    at_ns: int

    def give_up(self) -> None:
        """End it, where nobody has taken it over or it has not ended since; waits for it."""
        self.line.close()
        self.process.kill()  # looks first whether it has been reaped
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(KILL_WAIT_S)


def begin(env: dict[str, str], preload: tuple[str, ...]) -> Begun:
    """Start a process, in the main thread (PDEATHSIG), and wait for nothing; raises OSError."""
    at_ns = time.time_ns()
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
    return Begun(process, ours, at_ns)


class Template:
    """A warm process that cells are forked from."""

    def __init__(self, begun: Begun, child: Child) -> None:
        self._process = begun.process  # kept: Popen reaps when collected
        self._line = begun.line
        self._begun_ns = begun.at_ns
        self.child = child
        self._next = 0
        self._asked: dict[int, asyncio.Future[Spawned | SpawnFailed]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._seen: dict[str, int] = {}
        self._sending = asyncio.Lock()
        self._lost = False
        self._early = False  # what it is made of has changed while it was loaded
        self.hello: NurseryHello | None = None

    @classmethod
    async def start(cls, children: Children, begun: Begun) -> Self:
        """Wait until a process that was begun is warm; raises OSError or Gone."""
        template = cls(begun, children.watch(begun.process.pid))
        try:
            await template._greet(children)
        except BaseException:
            await template.end(at_once=True)
            raise
        return template

    async def _greet(self, children: Children) -> None:
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                hello = await self._receive()
        except (OSError, TimeoutError, ValueError) as error:
            raise Gone(f"it did not start: {plain(error)}") from None
        if not isinstance(hello, NurseryHello):
            raise Gone("it did not start: its first message was not the expected one")
        if hello.version != VERSION:
            raise Gone(f"clew {hello.version} is installed, this is {VERSION}: restart the daemon")
        self.hello = hello
        self._seen = {path: _changed_ns(path) for path in hello.made_of}
        now = time.time_ns()  # later than that is what a clock has left that was set back
        self._early = any(self._begun_ns < at <= now for at in self._seen.values())
        self._reading = asyncio.ensure_future(self._read(children))

    @property
    def alive(self) -> bool:
        """It can be asked."""
        ended = self.child.ended.done() or self._reading is None or self._reading.done()
        return not (ended or self._lost)

    @property
    def outdated(self) -> bool:
        """What it was loaded from has changed since it was started."""
        return self._early or any(_changed_ns(path) != at for path, at in self._seen.items())

    async def ask(self, spec: CellSpec, fds: list[int]) -> Spawned | SpawnFailed:
        """Ask for a cell with these descriptors.

        Raises Gone, ValueError for a spec that is too long, OSError if there is nothing to send it with.
        """
        self._next += 1
        number = self._next
        request = to_packet(Spawn(id=number, spec=spec))
        answer: asyncio.Future[Spawned | SpawnFailed] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            async with asyncio.timeout(SPAWN_TIMEOUT_S):
                async with self._sending:  # one at a time waits for room
                    await _send(self._line, request, fds)
                return await answer
        except OSError as error:
            if is_shortage(error):
                raise
            self._lost = True
            self.child.kill()
            late = isinstance(error, TimeoutError)
            raise Gone(f"no answer for {SPAWN_TIMEOUT_S:g} s" if late else plain(error)) from None
        finally:
            del self._asked[number]

    async def end(self, *, at_once: bool = False) -> None:
        """End it, with what it has in store; its cells go on, and those under way are waited for.

        Legal at any time, also twice.
        """
        if not at_once and self._asked and self.alive:
            await asyncio.wait(list(self._asked.values()), timeout=SPAWN_TIMEOUT_S)
        if self._reading:
            self._reading.cancel()
            await asyncio.wait([self._reading])  # off the loop before its number is another's
        self._line.close()  # it ends by itself
        if at_once:
            self.child.kill()
        done, _ = await asyncio.wait([self.child.ended], timeout=KILL_WAIT_S)
        if not done:
            self.child.kill()
            await asyncio.wait([self.child.ended], timeout=KILL_WAIT_S)
        self._process.returncode = self._process.returncode or 0  # reaped by `Children`

    async def _read(self, children: Children) -> None:
        """Hand on what it says, until its end."""
        fault = "it has ended"
        try:
            while True:
                match await self._receive():
                    case InStore() as kept:
                        children.watch(kept.guard_pid)
                    case Spawned() | SpawnFailed() as answer:
                        self._answered(answer, children)
        except (OSError, ValueError) as error:
            fault = plain(error)
            self.child.kill()
        finally:
            for waiting in self._asked.values():
                if not waiting.done():
                    waiting.set_exception(Gone(fault))

    def _answered(self, answer: Spawned | SpawnFailed, children: Children) -> None:
        waiting = self._asked.get(answer.id)
        if waiting and not waiting.done():
            waiting.set_result(answer)
        elif isinstance(answer, Spawned):  # nobody waits for it any more
            children.watch(answer.guard_pid).kill()

    async def _receive(self) -> NurseryMessage:
        loop = asyncio.get_running_loop()
        data = await loop.sock_recv(self._line, PACKET_BYTES_MAX)
        if not data:
            raise ConnectionResetError("its socket was closed")
        return read_from_nursery(data)


def _changed_ns(path: str) -> int:
    """Return when a file or folder was last changed in any way, 0 if it is not there."""
    try:
        return os.stat(path).st_ctime_ns  # noqa: PTH116 - a fifth of the time, a hundred times a start
    except OSError:
        return 0


async def _send(sock: socket.socket, data: bytes, fds: list[int]) -> None:
    """Send one packet with descriptors; waits while the socket is full."""
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
