"""The daemon's side of the nursery: gives cells, and renews the warm process that they are forked from.

What runs in a cell, and how it is confined, is the worker's; see `clew_shared.wire.nursery` for the wire, and
`clew_daemon.processes.zygote` for the line to one process.
"""

from __future__ import annotations

import asyncio
import heapq
import signal
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from clew_daemon.host import background
from clew_daemon.processes.zygote import KILL_WAIT_S, Gone, Template, begin
from clew_shared.text.plain import plain
from clew_shared.wire.nursery import CellSpec, SandboxReport, SpawnFailed
from clew_shared.wire.shortage import is_shortage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clew_daemon.processes.cgroups import Leaf
    from clew_daemon.processes.children import Child, Children
    from clew_daemon.processes.zygote import Begun

log = structlog.get_logger()

STARTS_AT_ONCE = 4
AGAIN_FIRST_S = 1.0
AGAIN_MAX_S = 60.0


class SpawnError(Exception):
    """A cell could not be started; `reason` is `sandbox`, `exec`, `resources`, `nursery` or `spawn`."""

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
    """Gives cells; `start` and `stop` may be called at any time, also twice.

    Its process is replaced when it has ended, hangs, or is made of what has changed since. One that does not
    start is tried again ever later, and meanwhile an outdated one goes on: it is whole, as it is in memory.
    """

    def __init__(
        self,
        children: Children,
        env: dict[str, str],
        preload: tuple[str, ...],
        begun: Begun | None = None,
    ) -> None:
        self._children = children
        self._env = env
        self._preload = preload
        self._loaded: tuple[str, ...] = ()  # what the process that is there was asked to import
        self._begun = begun  # the first process, which may warm up already
        self._template: Template | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._renewing = asyncio.Lock()
        self._turns = Turns(STARTS_AT_ONCE)
        self._failures = 0
        self._again_at = 0.0
        self._fault = ""
        self.report: SandboxReport | None = None

    def preload(self, modules: tuple[str, ...]) -> None:
        """Import these from the next process on; one that lacks some of them is replaced before it gives a cell."""
        self._preload = modules

    async def start(self) -> None:
        """Start the process and wait until it is warm; raises SpawnError."""
        await self._ready()

    async def stop(self) -> None:
        """End the process; cells go on."""
        template, self._template = self._template, None
        if template:
            await template.end()
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def spawn(
        self, spec: CellSpec, channel: int, log_fd: int | None, group: Leaf | None = None
    ) -> Cell:
        """Start a cell with these descriptors, which stay the caller's to close; raises SpawnError.

        Its processes enter `group` before anything of the goal runs; if it cannot start, the group stays
        the caller's to end.
        """
        if group:
            spec = spec.model_copy(update={"cgroup": str(group.path)})
        fds = [channel] if log_fd is None else [channel, log_fd]
        # a worker is back when its agent is: hands can wait until it wants something
        async with self._turns.one(later=spec.kind == "executor"):
            self._children.spawning += 1
            try:
                return await self._spawn(spec, fds, group)
            finally:
                self._children.spawning -= 1

    async def _spawn(self, spec: CellSpec, fds: list[int], group: Leaf | None) -> Cell:
        template = await self._ready()
        try:
            answer = await template.ask(spec, fds)
        except (Gone, ValueError) as error:
            raise SpawnError("spawn", f"the nursery has no cell: {error}") from None
        except OSError as error:
            raise SpawnError("resources", f"the nursery has no cell: {plain(error)}") from None
        if isinstance(answer, SpawnFailed):
            if answer.guard_pid:
                await asyncio.wait(
                    [self._children.watch(answer.guard_pid).ended], timeout=KILL_WAIT_S
                )
            raise SpawnError(answer.reason, answer.message)
        guard = self._children.watch(answer.guard_pid)
        return Cell(guard, answer.pid, answer.isolation, answer.warnings, self._children, group)

    async def _ready(self) -> Template:
        """Give a process that is there and up to date, a new one where need be; raises SpawnError."""
        async with self._renewing:
            template = self._template
            lacks = not set(self._preload) <= set(self._loaded)
            if template and template.alive and not (template.outdated or lacks):
                return template
            if time.monotonic() >= self._again_at:
                await self._renew()
            elif not (template and template.alive):
                raise SpawnError("nursery", self._fault)
            assert self._template is not None  # noqa: S101 - renewed, or the outdated one
            return self._template

    async def _renew(self) -> None:
        """Put a new process in the place of the last one; raises SpawnError where neither is to be had."""
        last = self._template
        try:
            begun, self._begun = self._begun or begin(self._env, self._preload), None
            modules = self._preload
            new = await Template.start(self._children, begun)
        except (OSError, Gone) as error:
            self._put_off(error)
            if last and last.alive:
                return
            short = isinstance(error, OSError) and is_shortage(error)
            raise SpawnError("resources" if short else "nursery", self._fault) from None
        self._failures, self._template, self._loaded = 0, new, modules
        if new.hello:
            self.report = new.hello.sandbox
            log.debug("nursery.ready", pid=new.hello.pid, preloaded=list(new.hello.preloaded))
        if last:
            ending = background.begin(last.end())  # nobody waits for what it has under way
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _put_off(self, error: Exception) -> None:
        """Try again later, and ever later."""
        pause_s = min(AGAIN_MAX_S, AGAIN_FIRST_S * 2.0**self._failures)
        self._failures += 1
        self._again_at = time.monotonic() + pause_s
        self._fault = f"the nursery cannot start: {plain(error)}"
        log.error("nursery.failed", reason=plain(error), again_s=pause_s)


class Turns:
    """So many at once; who may wait goes last. Source: a semaphore, but for the order."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: list[tuple[bool, int, asyncio.Future[None]]] = []
        self._count = 0

    @asynccontextmanager
    async def one(self, *, later: bool) -> AsyncIterator[None]:
        """Hold one of the places."""
        await self._take(later=later)
        try:
            yield
        finally:
            self._give()

    async def _take(self, *, later: bool) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._waiting, (later, self._count, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give()
            raise

    def _give(self) -> None:
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
