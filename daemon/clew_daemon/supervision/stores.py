"""Keeps the stores of snapshots within their limit, and the record true to what they have (docs/snapshots.md).

The stores of the goals that ended first are removed first. That a store is removed is recorded before it is done: a
record that lacks a store is never taken for damage, and a store that outlives its removal is removed later.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import structlog

from clew_daemon.parts import DaemonParts
from clew_daemon.supervision.retention import GONE, is_gone, remove_folders
from clew_shared.record.snapshot_events import SnapshotsMissing
from clew_shared.record.state import State

log = structlog.get_logger()

MB = 1024 * 1024
LOST = "they are not in this home: they were removed, or left behind when it was copied or restored"


class SnapshotStores:
    """Removes stores; `in_use` returns whether a goal has a worker or is held, `hold` keeps it from starting."""

    def __init__(
        self,
        daemon: DaemonParts,
        in_use: Callable[[str], bool],
        hold: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._d = daemon
        self._in_use = in_use
        self._hold = hold
        self._folder = daemon.places.snapshots
        self._removing = asyncio.Lock()
        daemon.space.make_room = self.make_room

    async def open(self) -> None:
        """Measure the stores, and record which are missing; before the first worker starts."""
        await asyncio.to_thread(self._d.space.measure)
        found = await asyncio.to_thread(self._d.space.folders)
        if found is None:
            return  # they may be whole: what cannot be read is not recorded as gone
        there = await asyncio.to_thread(lambda: {name for name in found if self._has_store(name)})
        for goal, state in self._d.goals.states().items():
            if state.snapshots.first and goal not in there:
                log.warning("snapshot.lost", goal=goal)
                await self._record(goal, LOST)

    async def run(self) -> None:
        """Remove what belongs to no goal any more."""
        async with self._removing:
            for goal in await asyncio.to_thread(self._d.space.folders) or ():
                if self._is_leftover(goal):
                    with self._hold(goal):
                        await self._remove(goal)
            await self._remove_gone()

    async def make_room(self, goal: str) -> bool:
        """Remove stores of the goals that ended first, until this one may have half of the limit; return if any was."""
        space, removed, limit = self._d.space, False, self._d.settings.snapshots.max_mb
        async with self._removing:
            kept = filter(is_removable, self._d.goals.states().values())
            for other in [s.goal_id for s in sorted(kept, key=lambda state: state.ended_at)]:
                if space.total - space.of(goal) <= limit * MB // 2:
                    break
                core = self._d.goals.cores.get(other)
                gone = core is None or not is_removable(core.state)  # retried or purged meanwhile
                if other == goal or not space.of(other) or gone or self._in_use(other):
                    continue
                with self._hold(other):
                    log.info("snapshot.removed", goal=other, bytes=space.of(other))
                    why = f"they were removed to keep all goals' below {limit} MB"
                    await self._record(other, why)
                    await self._remove(other)
                removed = True
        return removed

    async def _record(self, goal: str, reason: str) -> None:
        event = SnapshotsMissing(at=time.time(), reason=reason, removed=True)
        await self._d.goals.emit(await self._d.goals.whole(goal), event)

    async def _remove(self, goal: str) -> None:
        """Remove a store: at once by its name, so that a new one may be made, then in pieces."""
        store = self._folder / goal
        with suppress(OSError):
            store.rename(self._folder / f".{goal}.{secrets.token_hex(4)}{GONE}")
        await self._remove_gone()
        self._d.space.removed(goal)

    async def _remove_gone(self) -> None:
        with suppress(OSError):
            await asyncio.to_thread(remove_folders, self._folder, is_gone)

    def _has_store(self, goal: str) -> bool:
        """Return whether a goal has a store; one that cannot be read counts as there."""
        try:
            (self._folder / goal / "HEAD").stat()
        except OSError as error:
            return not isinstance(error, FileNotFoundError | NotADirectoryError)
        return True

    def _is_leftover(self, goal: str) -> bool:
        """Return whether a store belongs to a purged goal, or to one whose record says that it is removed."""
        core = self._d.goals.cores.get(goal)
        if core is None:
            return goal in self._d.goals.gone  # any other folder may be the last copy of something
        return core.state.settled and not core.state.snapshots.first and not self._in_use(goal)


def is_removable(state: State) -> bool:
    """Return whether a goal's snapshots may be removed: it has ended, and no undo is under way."""
    return state.settled and bool(state.snapshots.first) and not state.snapshots.undoing
