"""The daemon's side of the nursery: starts cells, and renews the warm process that they are forked from.

What runs in a cell, and how it is confined, is decided in the worker; see `clew_shared.wire.nursery` for the wire,
and `clew_daemon.processes.zygote` for the connection to one process.
"""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import dataclass

import structlog

from clew_daemon.host import tasks
from clew_daemon.processes.cgroups import CellGroup
from clew_daemon.processes.children import Child, Children
from clew_daemon.processes.zygote import KILL_WAIT_S, NurseryGone, Zygote, ZygoteLaunch, launch
from clew_shared.backoff import backoff_s
from clew_shared.text.plain import plain
from clew_shared.wire.nursery import CellSpec, SandboxReport, SpawnFailed, is_shortage

log = structlog.get_logger()

STARTS_AT_ONCE = 4
RETRY_FIRST_S = 1.0
RETRY_MAX_S = 60.0


class SpawnError(Exception):
    """A cell could not be started; `reason` is one of `SpawnFault`, or `nursery`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


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
        done, _ = await asyncio.wait([self.guard.ended], timeout=KILL_WAIT_S)
        if not done:
            self.guard.kill()
            await asyncio.wait([self.guard.ended], timeout=KILL_WAIT_S)
        self.children.sweep()
        if self.group:
            await self.group.end()
        return self.guard.ended.result() if self.guard.ended.done() else 255


class Nursery:
    """Starts cells; `start` and `stop` may be called at any time, also twice.

    Its process is replaced when it has ended, hangs, or lacks what it is to import. Attempts to start a new one back
    off, and meanwhile the last one goes on.
    """

    def __init__(
        self,
        children: Children,
        env: dict[str, str],
        preload: tuple[str, ...],
        first: ZygoteLaunch | None = None,
    ) -> None:
        """`first` is a process that bootstrap has launched, and that may be warming up already."""
        self._children = children
        self._env = env
        self._preload = preload
        self._loaded: tuple[str, ...] = ()  # what the current process was asked to import
        self._first = first
        self._zygote: Zygote | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._renewing = asyncio.Lock()
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)
        self._failures = 0
        self._retry_at = 0.0
        self._fault = ""
        self.report: SandboxReport | None = None

    def preload(self, modules: tuple[str, ...]) -> None:
        """Import these from the next process on; one that lacks some of them is replaced before the next spawn."""
        self._preload = modules

    async def start(self) -> None:
        """Start the process and wait until it is warm; raises SpawnError."""
        await self._ready()

    async def stop(self) -> None:
        """End the process; cells go on."""
        zygote, self._zygote = self._zygote, None
        if zygote:
            await zygote.end()
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def spawn(
        self,
        spec: CellSpec,
        channel: int,
        log_fd: int | None,
        group: CellGroup | None = None,
        *,
        peer: int | None = None,
    ) -> Cell:
        """Start a cell with these descriptors, which the caller still has to close; raises SpawnError.

        `peer` leads from a bridge to the cell of its CLI.

        Its processes enter `group` before anything of the goal runs; if it cannot start, the caller still has to
        end the group.
        """
        if group:
            spec = spec.model_copy(update={"cgroup": str(group.path)})
        fds = [fd for fd in (channel, log_fd, peer) if fd is not None]
        async with self._starts:
            with self._children.starting_own():
                return await self._spawn(spec, fds, group)

    async def _spawn(self, spec: CellSpec, fds: list[int], group: CellGroup | None) -> Cell:
        zygote = await self._ready()
        try:
            answer = await zygote.ask(spec, fds)
        except (NurseryGone, ValueError) as error:
            raise SpawnError("spawn", f"the nursery has no cell: {error}") from None
        except OSError as error:
            raise SpawnError("resources", f"the nursery has no cell: {plain(error)}") from None
        if isinstance(answer, SpawnFailed):
            if answer.guard_pid:
                ended = self._children.watch(answer.guard_pid).ended
                await asyncio.wait([ended], timeout=KILL_WAIT_S)
            raise SpawnError(answer.reason, answer.message)
        guard = self._children.watch(answer.guard_pid)
        return Cell(guard, answer.pid, answer.isolation, answer.warnings, self._children, group)

    async def _ready(self) -> Zygote:
        """Return a process that lives and has what cells need, a new one if necessary; raises SpawnError."""
        async with self._renewing:
            zygote = self._zygote
            lacks = not set(self._preload) <= set(self._loaded)
            if zygote and zygote.alive and not lacks:
                return zygote
            if time.monotonic() >= self._retry_at:
                await self._renew()
            elif not (zygote and zygote.alive):
                raise SpawnError("nursery", self._fault)
            assert self._zygote is not None  # noqa: S101 - renewed, or the last one
            return self._zygote

    async def _renew(self) -> None:
        """Replace the last process by a new one; raises SpawnError where neither is usable."""
        last = self._zygote
        try:
            launched, self._first = self._first or launch(self._env, self._preload), None
            modules = self._preload
            new = await Zygote.start(self._children, launched)
        except (OSError, NurseryGone) as error:
            pause_s = backoff_s(self._failures, RETRY_FIRST_S, RETRY_MAX_S)
            self._failures += 1
            self._retry_at = time.monotonic() + pause_s
            self._fault = f"the nursery cannot start: {plain(error)}"
            log.error("nursery.failed", reason=plain(error), again_s=pause_s)  # noqa: TRY400 - a reason
            if last and last.alive:
                return
            raise SpawnError(
                "resources" if is_shortage(error) else "nursery", self._fault
            ) from None
        self._failures, self._zygote, self._loaded = 0, new, modules
        if new.hello:
            self.report = new.hello.sandbox
            log.debug("nursery.ready", pid=new.hello.pid, preloaded=list(new.hello.preloaded))
        if last:
            # the spawns that it still has to finish delay no others
            ending = tasks.start(last.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
