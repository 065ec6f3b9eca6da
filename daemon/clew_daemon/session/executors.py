"""The hands of one worker: its executor, started when it is needed, and the specs and the group of its cells.

It knows what cells may do, and the folder they stand on; what they are asked to do is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import structlog

from clew_daemon.processes import cells, workspace_guard
from clew_daemon.processes.endings import is_short
from clew_daemon.processes.executor import (
    Executor,
    ExecutorDied,
    OutOfResources,
    WorkspaceLostError,
)
from clew_daemon.processes.nursery import SpawnError
from clew_shared.text.plain import plain

if TYPE_CHECKING:
    from clew_daemon.parts import DaemonParts
    from clew_daemon.processes.cgroups import CellGroup
    from clew_daemon.processes.nursery import Cell
    from clew_daemon.processes.workspace_guard import Ground
    from clew_shared.config.settings import Settings
    from clew_shared.record.state import State
    from clew_shared.wire.nursery import CellSpec

log = structlog.get_logger()

STARTING_WAIT_S = 5.0


class Hands:
    """The executors of one epoch, one after the other."""

    def __init__(self, daemon: DaemonParts, state: State, epoch: int, place: Ground) -> None:
        self._d = daemon
        self._state = state
        self._about: dict[str, Any] = {"goal": state.goal_id, "epoch": epoch}
        self._group = daemon.cgroups.worker(state.goal_id, epoch)
        self._ground = place
        self._private: dict[str, tuple[int, int]] = {}
        self._executor: Executor | None = None
        self._lock = asyncio.Lock()
        self._ended = False

    @property
    def _settings(self) -> Settings:
        return self._d.settings_of(self._state.goal_id)

    @property
    def cell(self) -> Cell | None:
        """The executor's cell, None before it was needed."""
        return self._executor.cell if self._executor else None

    async def executor(self) -> Executor:
        """Return the executor, a new one where the last has ended; raises ExecutorDied.

        One whose TMPDIR or HOME was removed is ended: what it was shown of them cannot be made again.
        """
        async with self._lock:
            if self._executor and not await asyncio.to_thread(self._has_private):
                log.warning("executor.ended", **self._about, reason="its TMPDIR or HOME is gone")
                await self._executor.end()
            if self._ended:
                raise ExecutorDied("the worker is ending")
            if self._executor is None or not self._executor.alive:
                self._executor = await self._started()
            elif not await asyncio.to_thread(self._ground.stands):
                raise WorkspaceLostError("another folder is in the place of the workspace")
            return self._executor

    async def _started(self) -> Executor:
        try:
            await self.prepare()
            spec = self.spec()
            return await Executor.start(self._d.nursery, spec, self.leaf(spec))
        except (SpawnError, OSError) as error:
            raise _fault(error) from error

    async def prepare(self) -> None:
        """See that a cell may start: on this very folder, with a TMPDIR and a HOME; raises WorkspaceLostError, OSError.

        Raises LedgerFailed where the ledger is gone, and these folders with it. The cell looks again at where it
        stands, when it cannot be moved from there any more.
        """
        self._d.book.ledger.look()
        if lost := await asyncio.to_thread(self._ground.lost):
            raise WorkspaceLostError(lost.detail)
        goal = self._state.goal_id
        self._private = await asyncio.to_thread(cells.make_private, self._d.places, goal)

    def _has_private(self) -> bool:
        return all(workspace_guard.is_place(path, place) for path, place in self._private.items())

    def _stands(self) -> bool:
        return self._ground.stands() and self._has_private()

    async def standing(self) -> Executor | None:
        """Return the executor that lives, on the folder that is there; None says nothing yet."""
        stands = await asyncio.to_thread(self._stands)
        alive = self._executor is not None and self._executor.alive
        return self._executor if stands and alive and not self._ended else None

    async def died(self, why: str) -> None:
        """End whatever a dead executor has left."""
        if not self._ended:
            log.warning("executor.died", **self._about, reason=why)
        if self._executor is not None:
            await self._executor.end()
            self._executor = None

    async def digest(self, *, anew: bool) -> str:
        """Measure the world, `anew` from every file's stat; "" where that cannot be done."""
        try:
            return await (await self.executor()).digest(anew=anew)
        except OutOfResources:
            raise
        except WorkspaceLostError:  # the next action there is told why
            return ""
        except ExecutorDied as error:
            await self.died(str(error))
            return ""

    def strike(self) -> None:
        """Send the executor its end, and wait for nothing."""
        if self._executor is not None:
            self._executor.cell.kill_nowait()

    async def end(self) -> None:
        """End the executor, also one that is just being started, and all that is in the worker's group."""
        self._ended = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STARTING_WAIT_S), self._lock:
                pass
        if self._executor is not None:
            await self._executor.end()
        if self._group:  # a cell that was never heard of is in it, too
            await self._group.end()

    # -- cells -----------------------------------------------------------------------------------------

    def leaf(self, spec: CellSpec) -> CellGroup | None:
        """Make the control group of a new cell, in the worker's."""
        if self._group is None:
            return None
        self.limited()
        return self._group.cell(spec.kind, spec.limits)

    def limited(self) -> bool:
        """Tell whether the kernel holds the worker to its memory, to what is allowed now."""
        try:
            return bool(self._group and self._group.limit(self._settings.limits.memory_mb))
        except OSError as error:
            log.warning("cgroup.failed", **self._about, reason=plain(error))
            return False

    def out_of_memory(self) -> bool:
        """Tell whether the kernel has ended a part of the worker for want of memory."""
        return bool(self._group and self._group.out_of_memory())

    def hidden(self) -> tuple[str, ...]:
        """Name what no cell of this worker may see."""
        states = self._d.book.states().values()
        used = (
            self._settings,
            self._d.settings,
            *self._d.started.values(),
        )  # also by running goals
        keys = {path: None for one in used for path in self._d.keys.paths(one)}
        return cells.hidden(self._d.places, keys, self._state, states)

    def spec(self) -> Any:
        """Return the spec of an executor."""
        d = self._d
        spec = cells.executor_spec(
            d.places, self._settings, self._state, self.hidden(), d.keys.env, d.git
        )
        return self._placed(spec, "executor")

    def agent_spec(self, agent: cells.Agent) -> CellSpec:
        """Give the spec of the agent that these are the hands of."""
        d, epoch = self._d, self._about["epoch"]
        spec = cells.agent_spec(
            d.places, self._settings, self._state, agent, self.hidden(), d.keys.env, d.git, epoch
        )
        return self._placed(spec, "agent")

    def _placed(self, spec: CellSpec, role: str) -> CellSpec:
        title = f"clew: {role} {self._about['goal']} epoch {self._about['epoch']}"
        return spec.model_copy(update={"stands_on": self._ground.place, "title": title})


def _fault(error: SpawnError | OSError) -> ExecutorDied:
    """Say how an executor that could not be started has failed."""
    if is_short(error):
        return OutOfResources(plain(error))
    if isinstance(error, SpawnError) and error.reason == "workspace":
        return WorkspaceLostError(plain(error))
    return ExecutorDied(plain(error))
