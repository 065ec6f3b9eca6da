"""What is restored goes on record before anything is, so that it is completed whatever ends it half-way."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import structlog

from clew_daemon.host.git import program
from clew_daemon.undo.restoration import unpacked
from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode
from clew_shared.record.touched import NAMES_MAX
from clew_shared.snapshots.store import at

if TYPE_CHECKING:
    from clew_daemon.parts import DaemonParts
    from clew_daemon.undo.restoration import Restoration
    from clew_daemon.undo.scope import Span
    from clew_daemon.undo.visit import WorkspaceVisit
    from clew_shared.core.core import Core
    from clew_shared.record import events as ev
    from clew_shared.snapshots.store import SnapshotStore

log = structlog.get_logger()


class RecordedUndo:
    """Begins, completes and reads the undos of goals that are on record."""

    def __init__(self, parts: DaemonParts) -> None:
        self._parts = parts

    def rows(self, goal: str) -> list[tuple[int, ev.Event]]:
        """Read the record of a goal; it blocks."""
        return [(row.seq, decode(row.body)) for row in self._parts.goals.ledger.read(goal)]

    def store(self, goal: str) -> SnapshotStore:
        """Return the store of a goal; raises StoreError without a usable git."""
        return at(self._parts.places.snapshots / goal, program(self._parts.keys.env))

    async def carry_out(
        self, core: Core, span: Span, work: Restoration, there: WorkspaceVisit, *, theirs: bool
    ) -> tuple[snap.UndoFinished, dict[str, str]]:
        """Record what will be restored, and restore it; return its end, and why entries could not be restored."""
        body = await asyncio.to_thread(work.packed)
        begun = await self._begin(core, span, work, body, theirs=theirs)
        return await self._restore(core, begun, work, there, resumed=False)

    async def complete(self, core: Core, there: WorkspaceVisit) -> None:
        """Complete the undo that is under way on record, if there is one; raises StoreError."""
        if begun := core.state.snapshots.undoing:
            goal = core.state.goal_id
            work = await asyncio.to_thread(self._recorded, begun)
            log.info("undo.resumed", goal=goal, undo=begun)
            started = dict(await asyncio.to_thread(self.rows, goal)).get(begun)
            if _is_elsewhere(core, started):
                await self._finish(
                    core, begun, [], [one.name for one in work.entries], resumed=True
                )
            else:
                await self._restore(core, begun, work, there, resumed=True)

    async def _begin(
        self, core: Core, span: Span, work: Restoration, body: bytes, *, theirs: bool
    ) -> int:
        """Record what will be restored; return the number of that event."""
        event = snap.UndoStarted(
            at=time.time(),
            scope=span.scope,
            task_idx=span.task_idx,
            subtask_idx=span.subtask_idx,
            first=span.first,
            last=span.last,
            entries=len(work.entries),
            theirs=theirs,
            workspace=core.state.workspace,
        )
        goals = self._parts.goals
        with goals.entering(core):
            seq = core.emit(event, body)
        await goals.commit(core)
        return seq

    def _recorded(self, begun: int) -> Restoration:
        return unpacked(self._parts.goals.ledger.output(begun))

    async def _restore(
        self,
        core: Core,
        begun: int,
        work: Restoration,
        there: WorkspaceVisit,
        *,
        resumed: bool,
    ) -> tuple[snap.UndoFinished, dict[str, str]]:
        own: list[tuple[str, str]] = []
        left: list[str] = []
        failed: dict[str, str] = {}
        async for done in there.restore(work):
            own += done.restored
            left += done.left
            failed |= done.faults
        event = await self._finish(core, begun, own, left, resumed=resumed)
        await there.snapshot("undone")
        return event, failed

    async def _finish(
        self, core: Core, begun: int, own: list[tuple[str, str]], left: list[str], *, resumed: bool
    ) -> snap.UndoFinished:
        """Record that an undo is complete."""
        event = snap.UndoFinished(
            at=time.time(),
            of=begun,
            restored=len(own),
            own=tuple(own[:NAMES_MAX]),
            left=tuple(left[:NAMES_MAX]),
            left_total=len(left),
            resumed=resumed,
        )
        await self._parts.goals.emit(core, event)
        return event


def _is_elsewhere(core: Core, started: ev.Event | None) -> bool:
    """Return whether a person has accepted another folder as the workspace since an undo began."""
    then = started.workspace if isinstance(started, snap.UndoStarted) else None
    now = core.state.workspace
    return bool(then and now and not then.is_same(now))
