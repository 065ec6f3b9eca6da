"""What is restored goes on record before anything is, so that it is completed whatever ends it half-way."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass

import structlog

from clew_daemon.host.git import program
from clew_daemon.parts import DaemonParts
from clew_daemon.processes.executor import ExecutorDied
from clew_daemon.undo.planning import Restoration, unpacked
from clew_daemon.undo.scope import Span, of_undo
from clew_daemon.undo.visit import VisitFailed, WorkspaceVisit
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode
from clew_shared.record.touched import NAMES_MAX
from clew_shared.snapshots.store import SnapshotStore, at

log = structlog.get_logger()

ELSEWHERE = "the workspace is another folder now"


@dataclass(frozen=True, slots=True)
class UndoOutcome:
    """What came of an undo: what it was of, from which tree, its end, and why entries could not be restored."""

    span: Span
    tree: str
    finished: snap.UndoFinished
    failed: dict[str, str]


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
    ) -> UndoOutcome:
        """Record what will be restored, and restore it."""
        body = await asyncio.to_thread(work.packed)
        begun = await self._begin(core, span, work, body, theirs=theirs)
        return await self._restore(core, begun, span, work, there, resumed=False)

    async def complete(self, core: Core, there: WorkspaceVisit) -> UndoOutcome | None:
        """Complete the undo that is under way on record; None where there is none. Raises StoreError."""
        begun = core.state.snapshots.undoing
        if not begun:
            return None
        goal = core.state.goal_id
        work = await asyncio.to_thread(self._recorded, begun)
        log.info("undo.resumed", goal=goal, undo=begun)
        started = dict(await asyncio.to_thread(self.rows, goal))[begun]
        assert isinstance(started, snap.UndoStarted)  # noqa: S101 - `undoing` is the number of one
        span = of_undo(started)
        if _is_elsewhere(core, started):
            return await self._leave(core, begun, span, work)
        return await self._restore(core, begun, span, work, there, resumed=True)

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

    async def _leave(self, core: Core, begun: int, span: Span, work: Restoration) -> UndoOutcome:
        """End an undo that was cut off in another folder than the workspace of now; all files are left."""
        left = [one.name for one in work.entries]
        finished = await self._finish(core, begun, [], left, set(), resumed=True)
        return UndoOutcome(span, work.tree, finished, dict.fromkeys(left, ELSEWHERE))

    async def _restore(
        self,
        core: Core,
        begun: int,
        span: Span,
        work: Restoration,
        there: WorkspaceVisit,
        *,
        resumed: bool,
    ) -> UndoOutcome:
        """Restore what is on record, and record that it is done."""
        own: list[tuple[str, str]] = []
        left: list[str] = []
        failed: dict[str, str] = {}
        async for done in there.restore(work):
            own += done.restored
            left += done.left
            failed |= done.faults
        folders = {one.name for one in work.entries if one.is_folder}
        finished = await self._finish(core, begun, own, left, folders, resumed=resumed)
        with contextlib.suppress(VisitFailed, ExecutorDied):  # the next one shows the same
            await there.snapshot("undone")
        return UndoOutcome(span, work.tree, finished, failed)

    async def _finish(
        self,
        core: Core,
        begun: int,
        own: list[tuple[str, str]],
        left: list[str],
        folders: set[str],
        *,
        resumed: bool,
    ) -> snap.UndoFinished:
        """Record that an undo is complete; `folders` are the names of folders among all entries."""
        event = snap.UndoFinished(
            at=time.time(),
            of=begun,
            restored=len(own),
            folders=sum(name in folders for name, _ in own),
            own=tuple(own[:NAMES_MAX]),
            left=tuple(left[:NAMES_MAX]),
            left_total=len(left),
            resumed=resumed,
        )
        await self._parts.goals.emit(core, event)
        return event


def _is_elsewhere(core: Core, started: snap.UndoStarted) -> bool:
    """Return whether a person has accepted another folder as the workspace since an undo began."""
    then, now = started.workspace, core.state.workspace
    return bool(then and now and not then.is_same(now))
