"""The daemon's side of the nursery: starts cells, and renews the warm process that they are forked from, the zygote.

What runs in a cell, and how it is confined, is decided in the worker; see `clew_shared.wire.nursery` for the wire.
"""

import array
import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import count

import structlog

from clew_daemon.processes.cgroups import CellGroup
from clew_daemon.processes.children import Child, Children, ends_within
from clew_shared.text.plain import plain
from clew_shared.wire import nursery as wire

log = structlog.get_logger()

VERSION = version("clew")  # The version of the running code, whatever has been installed meanwhile
READY_TIMEOUT_S = 60.0
# a nursery gives up on a cell after a third of that; one that does not answer hangs
SPAWN_TIMEOUT_S = 30.0
KILL_WAIT_S = 5.0
FULL_WAIT_S = 0.005
STARTS_AT_ONCE = 4


class SpawnError(Exception):
    """A cell could not be started; `reason` is one of `SpawnFault`, or `nursery`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class NurseryGone(Exception):
    """The nursery's process has ended, hangs, or sent something that is not a message."""


@dataclass(slots=True)
class Cell:
    """A running cell: guard and payload; when the guard has ended, so has everything in it."""

    guard: Child
    pid: int
    isolation: str
    warnings: tuple[str, ...]
    children: Children
    group: CellGroup | None = None

    def kill_nowait(self) -> None:
        """Signal the whole tree to end, without waiting for it."""
        if self.group:
            self.group.kill()
        else:
            gentle = self.isolation == "guard"  # on SIGTERM the guard ends its tree itself
            self.guard.kill(signal.SIGTERM if gentle else signal.SIGKILL)

    async def kill(self) -> int:
        """End the whole tree and wait for it; return the exit code."""
        self.kill_nowait()
        await ends_within(self.guard, KILL_WAIT_S)
        self.children.sweep()
        if self.group:
            await self.group.end()
        return self.guard.ended.result() if self.guard.ended.done() else 255


class Zygote:
    """One warm process that cells are forked from, and the socket to it: launched, greeted, asked for cells, ended."""

    child: Child

    def __init__(self, env: dict[str, str], preload: tuple[str, ...]) -> None:
        """Launch it, in the main thread (PDEATHSIG), without waiting until it is warm; raises OSError."""
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.setblocking(False)
        fd = theirs.fileno()
        command = [sys.executable, "-P", "-m", "clew_worker.cell.nursery", str(fd), *preload]
        nothing = subprocess.DEVNULL
        try:
            with theirs:  # held, since it reaps when it is collected
                self._process = subprocess.Popen(
                    command, pass_fds=[fd], env=env, stdin=nothing, cwd="/"
                )
        except OSError:
            self._line.close()
            raise
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[wire.Spawned | wire.SpawnFailed]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self._lost = False

    def give_up(self) -> None:
        """End the process and wait for it; harmless where it was greeted and has ended."""
        self._line.close()
        self._process.kill()  # Popen checks first whether it has been reaped
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_WAIT_S)

    async def greet(self, children: Children) -> wire.NurseryHello:
        """Wait until it is warm; raises NurseryGone, after which it has ended."""
        self.child = children.watch(self._process.pid)
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                hello = _checked(await self._packet())
        except BaseException as error:
            self.child.kill()
            await self.end()
            if isinstance(error, OSError | ValueError):
                raise NurseryGone(f"it did not start: {plain(error)}") from None
            raise
        self._reading = asyncio.ensure_future(self._read(children))
        return hello

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        ended = self.child.ended.done() or self._reading is None or self._reading.done()
        return not (ended or self._lost)

    async def ask(self, spec: wire.CellSpec, fds: list[int]) -> wire.Spawned | wire.SpawnFailed:
        """Ask for a cell; raises NurseryGone, ValueError for a spec that is too long, OSError if resources run out."""
        number = next(self._numbers)
        request = wire.to_packet(wire.Spawn(id=number, spec=spec))
        self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(SPAWN_TIMEOUT_S):
                async with self._sending:  # one at a time waits for room in the socket
                    await _send(self._line, request, fds)
                return await self._asked[number]
        except OSError as error:
            if wire.is_shortage(error):
                raise
            self._lost = True
            self.child.kill()
            late = f"no answer for {SPAWN_TIMEOUT_S:g} s"
            why = late if isinstance(error, TimeoutError) else plain(error)
            raise NurseryGone(why) from None
        finally:
            del self._asked[number]

    async def end(self) -> None:
        """End it; cells go on. Legal at any time, also twice."""
        if self._reading:
            self._reading.cancel()
            # off the loop before the descriptor's number is used again
            await asyncio.wait([self._reading])
        self._line.close()  # it exits when this closes
        await ends_within(self.child, KILL_WAIT_S)
        self._process.returncode = self._process.returncode or 0  # reaped by `Children`

    async def _read(self, children: Children) -> None:
        """Pass on what it sends, until its end."""
        fault = "it has ended"
        try:
            while True:
                match wire.read_from_nursery(await self._packet()):
                    case wire.Spawned() | wire.SpawnFailed() as answer:
                        self._answered(answer, children)
        except (OSError, ValueError) as error:
            fault = plain(error)
            self.child.kill()
        finally:
            for waiting in self._asked.values():
                if not waiting.done():
                    waiting.set_exception(NurseryGone(fault))

    def _answered(self, answer: wire.Spawned | wire.SpawnFailed, children: Children) -> None:
        waiting = self._asked.get(answer.id)
        if waiting and not waiting.done():
            waiting.set_result(answer)
        elif isinstance(answer, wire.Spawned):  # the one who asked has given up
            children.watch(answer.guard_pid).kill()

    async def _packet(self) -> bytes:
        data = await asyncio.get_running_loop().sock_recv(self._line, wire.PACKET_BYTES_MAX)
        if not data:
            raise ConnectionResetError("its socket was closed")
        return data


def _checked(data: bytes) -> wire.NurseryHello:
    """Return the greeting of a nursery of this build: another's may have another form. Raises NurseryGone."""
    with contextlib.suppress(ValueError):
        hello = wire.read_from_nursery(data)
        if isinstance(hello, wire.NurseryHello) and hello.version == VERSION:
            return hello
    raise NurseryGone(
        f"it does not belong to clew {VERSION}, perhaps after an upgrade: restart the daemon"
    )


async def _send(sock: socket.socket, data: bytes, fds: list[int]) -> None:
    """Send one packet with descriptors; wait while the socket is full."""
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    while True:
        try:
            sock.sendmsg([data], ancillary)
        except BlockingIOError:
            await asyncio.sleep(FULL_WAIT_S)
        else:
            return


@dataclass(eq=False)
class Nursery:
    """Starts cells; `ready` and `stop` may be called at any time, also twice.

    When its process has ended or hangs, the next request for a cell starts a new one, which imports `preload`.
    `_first` is a process that bootstrap has launched, and that may be warming up already.
    """

    _children: Children
    _env: dict[str, str]
    preload: tuple[str, ...]
    _first: Zygote | None = None
    report: wire.SandboxReport | None = None
    _zygote: Zygote | None = None
    _renewing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _starts: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(STARTS_AT_ONCE))

    async def stop(self) -> None:
        """End the process; cells go on."""
        zygote, self._zygote = self._zygote, None
        if zygote:
            await zygote.end()

    async def spawn(
        self,
        spec: wire.CellSpec,
        channel: int,
        log_fd: int | None,
        group: CellGroup | None = None,
        *,
        peer: int | None = None,
    ) -> Cell:
        """Start a cell with these descriptors, which the caller still has to close; raises SpawnError.

        `peer` leads from a bridge to the cell of its CLI. Its processes enter `group` before anything of the goal
        runs; if it cannot start, the caller still has to end the group.
        """
        if group:
            spec = spec.model_copy(update={"cgroup": str(group.path)})
        fds = [fd for fd in (channel, log_fd, peer) if fd is not None]
        async with self._starts:
            with self._children.starting_own():
                answer = await self._asked(spec, fds)
                guard = self._children.watch(answer.guard_pid)
        return Cell(guard, answer.pid, answer.isolation, answer.warnings, self._children, group)

    async def _asked(self, spec: wire.CellSpec, fds: list[int]) -> wire.Spawned:
        zygote = await self.ready()
        try:
            answer = await zygote.ask(spec, fds)
        except (NurseryGone, ValueError) as error:
            raise SpawnError("spawn", f"the nursery has no cell: {error}") from None
        except OSError as error:
            raise SpawnError("resources", f"the nursery has no cell: {plain(error)}") from None
        if isinstance(answer, wire.Spawned):
            return answer
        if answer.guard_pid:
            ended = self._children.watch(answer.guard_pid).ended
            await asyncio.wait([ended], timeout=KILL_WAIT_S)
        raise SpawnError(answer.reason, answer.message)

    async def ready(self) -> Zygote:
        """Return a warm process that lives, a new one if necessary; raises SpawnError."""
        async with self._renewing:
            if self._zygote and self._zygote.alive:
                return self._zygote
            await self.stop()
            try:
                new, self._first = self._first or Zygote(self._env, self.preload), None
                hello = await new.greet(self._children)
            except (OSError, NurseryGone) as error:
                log.error("nursery.failed", reason=plain(error))  # noqa: TRY400 - a reason
                reason = "resources" if wire.is_shortage(error) else "nursery"
                raise SpawnError(reason, f"the nursery cannot start: {plain(error)}") from None
            log.debug("nursery.ready", pid=hello.pid, preloaded=list(hello.preloaded))
            self._zygote, self.report = new, hello.sandbox
            return new
