"""When snapshots of a goal's workspace are taken, and how they are recorded (docs/snapshots.md).

An action waits for a snapshot that is due, since it must show the workspace before it. Without one the goal goes on.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

import structlog

from clew_daemon.host.git import program
from clew_daemon.host.tasks import within
from clew_daemon.parts import DaemonParts
from clew_daemon.processes.executor import ExecutorFault, ExecutorProcess
from clew_daemon.processes.nursery import SpawnError
from clew_daemon.session.worker import ExecutorPool
from clew_shared.core.core import Core
from clew_shared.ledger.errors import LedgerError, LedgerState
from clew_shared.record import snapshot_events as snap
from clew_shared.record.snapshot_events import SnapshotMoment
from clew_shared.snapshots.store import SnapshotStore, StoreError, at
from clew_shared.text.plain import plain
from clew_shared.text.redact import redact
from clew_shared.wire.executor import SnapshotDone, SnapshotRequest

log = structlog.get_logger()

T = TypeVar("T")
Read = Callable[[SnapshotStore], T]
Seqs = tuple[int, ...]

# The end of a worker waits so long for its last snapshot; the next one's start sees what it would have shown.
LAST_SNAPSHOT_S = 10.0
MAKE_ROOM_S = 10.0  # How long one that found no room waits until those of ended goals are removed
SLOW_S = 10.0  # An executor that ends after this time while it takes a snapshot may do so again
SKIPPED = 4  # How many moments pass without a snapshot after one that failed

MB = 1024 * 1024


class WorkspaceSnapshots:
    """The snapshots that one worker's session takes."""

    def __init__(
        self, parts: DaemonParts, core: Core, executors: ExecutorPool, *, acting: Callable[[], bool]
    ) -> None:
        self._parts = parts
        self._core = core
        self._executors = executors
        self._acting = acting  # the agent carries out an action itself now
        self._begun: ExecutorProcess | None = None
        self._task: asyncio.Task[None] | None = None
        self._position: tuple[int, int, str] | None = None  # until that of the start is due
        self._acted = False
        self._skip = 0

    @property
    def enabled(self) -> bool:
        return self._parts.settings_of(self._core.state.goal_id).snapshots.enabled

    def start(self) -> None:
        """Take the snapshot of a worker's start: it shows what changed while no executor watched."""
        self._position = self._here()
        if not self._core.state.waits_for_time:  # else it may end before it has done anything
            self._due("worker")

    def executor_died(self, action: int) -> None:
        """Take the snapshot of a new executor's start, which shows what an action did until the last one died."""
        self._due("worker", cut_off=(action,))

    async def before_action(self, executor: ExecutorProcess) -> None:
        """Take the snapshot of a new executor's start where none was taken yet, before it changes anything."""
        if executor is not self._begun:
            self._begun = executor
            self._due("worker")
            await self.settled()

    async def first(self) -> None:
        """Take the goal's first snapshot where there is none: its agent may change files before it is heard of."""
        if self.enabled and not self._core.state.snapshots.first:
            await self.before_action(await self._executors.executor())
            await self._executors.cut_off()  # the agent comes first in each epoch

    def acted(self, *, too_many: bool) -> None:
        """Note that an action or a check was carried out; one that changed too much to list needs a snapshot."""
        self._acted = True
        if too_many:
            self._due("large")

    def follow(self) -> None:
        """Take a snapshot where another subtask begins, or the current one has ended."""
        if self._position and (here := self._here()) != self._position:
            self._position = here
            self._due("subtask")

    async def settled(self) -> None:
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def end(self) -> None:
        """Take the last snapshot of this worker, where anything was done since the one before it."""
        if self._acted:
            self._due("end")
        await self.settled()

    async def now(self) -> bool:
        """Take a snapshot, also where earlier ones have failed; return whether there is one."""
        before = self._core.state.snapshots.last_seq
        self._skip, self._acted = 0, True
        await self.end()
        return self._core.state.snapshots.last_seq != before

    async def close(self) -> None:
        """Take the last snapshot in bounded time; an action in flight is cut off first: it shall do no more."""
        in_flight = tuple(self._core.state.in_flight)
        if self._parts.goals.ledger.state is LedgerState.FULL:
            await self._executors.cut_off()  # it could not be recorded
        elif in_flight and self.enabled:
            if not self._acting():  # else the agent did it, which has ended
                await self._executors.cut_off()
            self._due("end", cut_off=in_flight)
        elif self._acted and self._executors.alive:
            self._due("end")
        if self._task is not None:
            await asyncio.wait([self._task], timeout=LAST_SNAPSHOT_S)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _here(self) -> tuple[int, int, str]:
        state, subtask = self._core.state, self._core.state.subtask
        status = subtask.status if subtask else ""
        return state.current_task_idx, state.current_subtask_idx, status

    def _due(self, moment: SnapshotMoment, cut_off: Seqs = ()) -> None:
        if self.enabled:
            self._acted = False
            # Only an executor that lives has seen what others did before that.
            itself = self._acting() and self._executors.alive
            self._task = asyncio.ensure_future(self._take(moment, self._task, cut_off, itself))

    async def _take(
        self, moment: SnapshotMoment, before: asyncio.Task[None] | None, cut_off: Seqs, itself: bool
    ) -> None:
        """Take one snapshot after the one before it, and record it; a failure is recorded too, and harms nothing.

        It shows what an action did that was `cut_off`, if the agent did that `itself` or it is noted who changed what.
        """
        if before is not None:
            await asyncio.gather(before, return_exceptions=True)
        if self._skip:
            self._skip -= 1
            return
        goal, began = self._core.state.goal_id, time.monotonic()
        failed = True
        try:
            done = await self._ask()
            making = self._parts.space.make_room
            if done.no_room and await within(MAKE_ROOM_S, making(goal)):
                done = await self._ask()
            failed = bool(done.fault)
            cut_off = tuple(one for one in cut_off if itself or one == done.noted)
            is_first = not self._core.state.snapshots.first  # whatever it was due for
            await record(self._parts, self._core, done, "goal" if is_first else moment, cut_off)
        except (ExecutorFault, SpawnError, OSError) as error:
            failed = time.monotonic() - began > SLOW_S
            log.warning("snapshot.failed", goal=goal, reason=str(error))
        except LedgerError:
            return  # the daemon is about to stop
        except Exception as error:
            log.exception("snapshot.failed", goal=goal, reason=repr(error))
        self._skip = SKIPPED if failed else 0

    async def _ask(self) -> SnapshotDone:
        executor = self._begun = await self._executors.executor()
        return await ask_snapshot(self._parts, self._core, executor, own=self._acting())


async def from_store(
    parts: DaemonParts, goal: str, within_s: float, read: Read[T], failed: str, **about: Any
) -> T | None:
    """Read from a goal's store, in a thread; None, and `failed` in the log, where that fails or takes longer."""

    def looked() -> T:
        return read(at(parts.places.snapshots / goal, program(parts.keys.env)))

    try:
        with parts.children.starting_own():  # its git is no leftover of a cell
            async with asyncio.timeout(within_s):
                return await asyncio.to_thread(looked)
    except (StoreError, OSError, TimeoutError) as error:
        log.warning(failed, goal=goal, **about, reason=plain(error))
        return None


async def ask_snapshot(
    parts: DaemonParts, core: Core, executor: ExecutorProcess, *, own: bool = False
) -> SnapshotDone:
    """Have an executor take a snapshot within the limits of the config; `own` as in SnapshotRequest."""
    goal = core.state.goal_id
    limits, used = parts.settings_of(goal).snapshots, parts.space.bytes
    room, largest = max(0, limits.max_mb * MB - used.total() + used[goal]), limits.max_file_mb * MB
    base = core.state.snapshots.first
    request = SnapshotRequest(own=own, base=base, max_file_bytes=largest, room_bytes=room)
    return await executor.snapshot(request)


async def record(
    parts: DaemonParts, core: Core, done: SnapshotDone, moment: SnapshotMoment, cut_off: Seqs = ()
) -> snap.SnapshotTaken | None:
    """Record a snapshot, or once why there is none; return its event."""
    if done.taken is None:
        limits = parts.settings_of(core.state.goal_id).snapshots
        reason = redact(f"{done.fault} = {limits.max_mb}" if done.no_room else done.fault)
        if reason != core.state.snapshots.missing:
            await parts.goals.emit(core, snap.SnapshotsMissing(at=time.time(), reason=reason))
        return None
    when = {"at": time.time(), "moment": moment, "cut_off": cut_off}
    event = done.taken.model_copy(update=when)
    parts.space.bytes[core.state.goal_id] += event.bytes
    await parts.goals.emit(core, event)
    return event
