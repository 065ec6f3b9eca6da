"""The executors of one epoch, one after the other: started when they are needed, and ended.

It sees to the folder that they work in and to the worker's control group; what they carry out is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import structlog

from clew_daemon.parts import DaemonParts
from clew_daemon.processes.cgroups import CellGroup
from clew_daemon.processes.endings import is_short
from clew_daemon.processes.executor import (
    ExecutorDied,
    ExecutorProcess,
    OutOfResources,
    WorkspaceMissingError,
)
from clew_daemon.processes.nursery import Cell, SpawnError
from clew_daemon.session.launcher import CellSpecs, Launcher
from clew_shared.record.touched import UNMEASURED, Touched
from clew_shared.text.plain import plain
from clew_shared.wire.executor import DigestDone, DigestRequest
from clew_shared.wire.nursery import CellSpec

log = structlog.get_logger()

STARTING_WAIT_S = 5.0


class ExecutorPool:
    """At most one executor at a time, in the worker's control group."""

    def __init__(self, parts: DaemonParts, specs: CellSpecs, launcher: Launcher) -> None:
        self._parts = parts
        self._specs = specs
        self._launcher = launcher
        self._about = {"goal": specs.goal_id, "epoch": specs.epoch}
        self._group = parts.cgroups.worker(specs.goal_id, specs.epoch)
        self._executor: ExecutorProcess | None = None
        self._looking: asyncio.Future[DigestDone | None] | None = None
        self._lock = asyncio.Lock()
        self._ended = False

    @property
    def cell(self) -> Cell | None:
        return self._executor.cell if self._executor else None

    @property
    def alive(self) -> bool:
        return not self._ended and self._executor is not None and self._executor.alive

    async def prepare(self) -> None:
        """Make ready for a new cell: the goal's very folder, a TMPDIR and a HOME.

        Raises WorkspaceMissingError, OSError, and LedgerFailed where the ledger is gone, and these folders with it.
        The cell looks again at the folder, when it cannot be moved from there any more.
        """
        self._parts.goals.ledger.look()
        await self._look()
        await asyncio.to_thread(self._specs.make_private)

    async def _look(self) -> None:
        """Raise WorkspaceMissingError where the goal's folder is not in its place."""
        guard = self._specs.guard
        missing = await asyncio.to_thread(lambda: None if guard.stands() else guard.missing())
        if missing:
            raise WorkspaceMissingError(missing.detail)

    async def executor(self) -> ExecutorProcess:
        """Return the executor, a new one where the last has ended, once the goal's folder was seen in its place.

        Raises WorkspaceMissingError and ExecutorDied.
        """
        async with self._lock:
            await self._look()
            if self._ended:
                raise ExecutorDied("the worker is ending")
            if self._executor is None or not self._executor.alive:
                self._executor = await self._started()
            return self._executor

    async def _started(self) -> ExecutorProcess:
        try:
            await self.prepare()
            return await self._launcher.executor(self._specs, self.leaf)
        except (SpawnError, OSError) as error:
            if is_short(error):
                raise OutOfResources(plain(error)) from error
            if isinstance(error, SpawnError) and error.reason == "workspace":
                raise WorkspaceMissingError(plain(error)) from error
            raise ExecutorDied(plain(error)) from error

    async def died(self, why: str) -> None:
        if not self._ended:
            log.warning("executor.died", **self._about, reason=why)
        if self._executor is not None:
            await self._executor.end()
            self._executor = None

    async def cut_off(self) -> None:
        """End the executor with what it carries out; the next one is started when it is needed."""
        async with self._lock:
            if self._executor is not None:
                await self._executor.end()
                self._executor = None

    @contextlib.asynccontextmanager
    async def view(self, kind: str) -> AsyncIterator[tuple[ExecutorProcess, str]]:
        """Enter a view of the workspace, with where it is still to be copied from; afterwards it is gone.

        All that the goal has left running ends first. Raises ExecutorDied where there can be no view.
        """
        await self.cut_off()
        async with self._lock:
            try:
                place = await asyncio.to_thread(self._specs.make_view)
                executor, source = await self._in_view(place, kind)
                try:
                    yield executor, source
                finally:
                    await executor.end()
            except (SpawnError, OSError) as error:
                raise ExecutorDied(plain(error)) from error
            finally:
                await asyncio.to_thread(self._specs.remove_view)

    async def _in_view(self, place: Path, kind: str) -> tuple[ExecutorProcess, str]:
        if kind != "copy":
            try:
                there = self._launcher.view(self._specs, place, self.leaf, overlay=True)
                return await there, ""
            except SpawnError:
                if kind == "overlay":
                    raise
        there = self._launcher.view(self._specs, place, self.leaf, overlay=False)
        return await there, self._specs.workspace

    async def digest(self, *, here: bool = False, own: bool = False) -> str:
        """Measure the world: UNKNOWN where it is too large, "" where it failed; `here` as in `_measured`.

        What has changed is reported with the next action or snapshot; `own`: as the goal's.
        """
        found = await self._measured(DigestRequest(own=own), here=here)
        return found.name if found else ""

    def look_soon(self, *, own: bool) -> asyncio.Future[DigestDone | None]:
        """Look beside what comes next: what has changed until then is the goal's (`own`), or someone else's."""
        looking = asyncio.ensure_future(self._measured(DigestRequest(own=own, names_only=True)))
        self._looking = looking
        looking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return looking

    async def touched_by_own(self, *, names_only: bool) -> tuple[str, Touched]:
        """Return what an action that the agent carried out itself has changed, and the world unless `names_only`."""
        request = DigestRequest(own=True, report=True, names_only=names_only)
        found = await self._measured(request)
        return (found.name, found.touched) if found else ("", UNMEASURED)

    async def _measured(self, request: DigestRequest, *, here: bool = False) -> DigestDone | None:
        """Return what an executor has measured, None where that failed.

        One that runs stands in the goal's own folder, whatever is in its place by now: that is looked at where `here`,
        before an action, and once a second (`Liveness`).
        """
        try:
            executor = self._executor if self.alive and not here else None
            executor = executor or await self.executor()
            return await executor.digest(request)
        except OutOfResources:
            raise
        except WorkspaceMissingError:  # the next action there reports why
            return None
        except ExecutorDied as error:
            await self.died(str(error))
            return None

    async def end(self) -> None:
        """End the executor, also one that is just being started, and all that is in the worker's control group."""
        self._ended = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STARTING_WAIT_S), self._lock:
                pass
        if self._executor is not None:
            await self._executor.end()
        if self._group:  # a cell of which no answer came is in it, too
            await self._group.end()

    # -- the control group -------------------------------------------------------------------------------

    def leaf(self, spec: CellSpec) -> CellGroup | None:
        if self._group is None:
            return None
        self.limited()
        return self._group.cell(spec.kind, spec.limits)

    def limited(self) -> bool:
        """Return whether the kernel holds the worker to its memory, to what is allowed now."""
        try:
            return bool(self._group and self._group.limit(self._specs.settings.limits.memory_mb))
        except OSError as error:
            log.warning("cgroup.failed", **self._about, reason=plain(error))
            return False

    def out_of_memory(self) -> bool:
        """Return whether the kernel has killed a part of the worker because its memory ran out."""
        return bool(self._group and self._group.out_of_memory())
