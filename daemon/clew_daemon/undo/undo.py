"""Performs an undo: the present is kept as a snapshot, what is restored goes on record, and then it is restored.

An undo that was cut off is completed before the goal does anything else. Restoring an entry twice changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace

import structlog

from clew_daemon.host.git import program
from clew_daemon.parts import DaemonParts
from clew_daemon.processes.executor import ExecutorDied
from clew_daemon.session.launcher import Launcher
from clew_daemon.undo import planning
from clew_daemon.undo.scope import Span, of_undo
from clew_daemon.undo.view import UndoResult
from clew_daemon.undo.visit import VisitFailed, WorkspaceVisit, visit
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode
from clew_shared.record.touched import NAMES_MAX
from clew_shared.snapshots.plan import UndoPlan
from clew_shared.snapshots.store import SnapshotStore, at

log = structlog.get_logger()

ELSEWHERE = "the workspace is another folder now"


class Undo:
    """Undoes the changes of goals; a goal that is being undone must have no worker meanwhile."""

    def __init__(self, parts: DaemonParts, launcher: Launcher) -> None:
        self._parts = parts
        self._launcher = launcher

    def rows(self, goal: str) -> list[tuple[int, ev.Event]]:
        """Read the record of a goal; it blocks."""
        return [(row.seq, decode(row.body)) for row in self._parts.goals.ledger.read(goal)]

    def store(self, goal: str) -> SnapshotStore:
        """Return the store of a goal; raises StoreError without a usable git."""
        return at(self._parts.places.snapshots / goal, program(self._parts.keys.env))

    async def tree_now(self, core: Core) -> str:
        """Return the tree of a new snapshot of a goal's workspace; raises VisitFailed."""
        async with visit(self._parts, core, self._launcher) as there:
            return (await there.snapshot("end")).tree

    async def complete(self, core: Core) -> None:
        """Complete an undo that an earlier daemon did not; raises VisitFailed, StoreError."""
        async with visit(self._parts, core, self._launcher) as there:
            await self.resume(core, there)

    async def undo(
        self,
        core: Core,
        subtask: tuple[int, int] | None,
        *,
        theirs: bool,
        perform: bool = False,
        expected: str | None = None,
    ) -> UndoResult:
        """Return what undoing a goal, or one subtask, would do, or do it (`perform`).

        If an undo of the goal was cut off, it is completed, and that is returned instead. `theirs`: what someone else
        has changed too, or what was changed again later, is overwritten. `expected` is the digest of the plan that was
        shown: nothing is restored if that has changed. Raises UndoRefused, VisitFailed, StoreError.
        """
        async with visit(self._parts, core, self._launcher) as there:
            if resumed := await self.resume(core, there):
                return resumed
            result = await self._planned(core, subtask, there, theirs=theirs)
            is_other = expected is not None and expected != result.digest
            is_empty = not (result.plan.restore or (theirs and result.plan.overwritten))
            if not perform or result.git["moved"] or is_other or is_empty:
                return result
            return await self.carry_out(core, result, there, theirs=theirs)

    async def _planned(
        self, core: Core, subtask: tuple[int, int] | None, there: WorkspaceVisit, *, theirs: bool
    ) -> UndoResult:
        goal, known = core.state.goal_id, core.state.snapshots
        if not known.first:
            why = known.missing or "it has not started, or it ran with an earlier version"
            raise planning.UndoRefused(f"there is no snapshot: {why}")
        present = await there.snapshot("undo")
        with self._parts.children.starting_own():  # git
            found = await asyncio.to_thread(
                lambda: planning.planned_undo(
                    self.store(goal), self.rows(goal), subtask, theirs=theirs
                )
            )
        git = await there.git_since(found.git_before, present.git)
        missing = await asyncio.to_thread(planning.gone, found, core.state.spec.workspace)
        return replace(found, git=git, gone=missing)

    async def carry_out(
        self, core: Core, result: UndoResult, there: WorkspaceVisit, *, theirs: bool
    ) -> UndoResult:
        """Record what will be restored, and restore it."""
        work = await asyncio.to_thread(planning.restoration, result.plan, theirs=theirs)
        begun = await self._begin(core, result.span, work, theirs=theirs)
        return await self._restore(core, begun, work, there, replace(result, overwritten=theirs))

    async def _begin(self, core: Core, span: Span, work: UndoPlan, *, theirs: bool) -> int:
        """Record what will be restored; return the number of that event."""
        body = await asyncio.to_thread(planning.packed, work)
        event = snap.UndoStarted(
            at=time.time(),
            scope=span.scope,
            task_idx=span.place[0],
            subtask_idx=span.place[1],
            first=span.first,
            last=span.last,
            entries=len(work.entries),
            theirs=theirs,
            workspace=core.state.workspace,
        )
        goals = self._parts.goals
        with goals.entering(core):
            begun = core.emit(event, body)
        await goals.commit(core)
        return begun

    async def resume(self, core: Core, there: WorkspaceVisit) -> UndoResult | None:
        """Complete the undo that is under way on record; None where there is none. Raises StoreError.

        Where a person has accepted another folder as the workspace since it began, all files are left.
        """
        begun = core.state.snapshots.undoing
        if not begun:
            return None
        ledger = self._parts.goals.ledger
        work = await asyncio.to_thread(lambda: planning.unpacked(ledger.output(begun)))
        log.info("undo.resumed", goal=core.state.goal_id, undo=begun)
        started = dict(await asyncio.to_thread(self.rows, core.state.goal_id))[begun]
        assert isinstance(started, snap.UndoStarted)  # noqa: S101 - `undoing` is the number of one
        then, now, result = started.workspace, core.state.workspace, UndoResult(of_undo(started))
        if then and now and not then.is_same(now):
            failed = dict.fromkeys((one.name for one in work.entries), ELSEWHERE)
            return await self._finish(core, begun, work, [], replace(result, failed=failed))
        return await self._restore(core, begun, work, there, result)

    async def _restore(
        self, core: Core, begun: int, work: UndoPlan, there: WorkspaceVisit, result: UndoResult
    ) -> UndoResult:
        """Restore what is on record, and record that it is done."""
        own: list[tuple[str, str]] = []
        failed: dict[str, str] = {}
        async for done in there.restore(work):
            own += done.restored
            failed |= dict.fromkeys(done.left, "") | done.faults
        result = await self._finish(core, begun, work, own, replace(result, failed=failed))
        with contextlib.suppress(VisitFailed, ExecutorDied):  # the next one shows the same
            await there.snapshot("undone")
        return result

    async def _finish(
        self,
        core: Core,
        begun: int,
        work: UndoPlan,
        own: list[tuple[str, str]],
        result: UndoResult,
    ) -> UndoResult:
        """Record that an undo is complete."""
        folders = {one.name for one in work.entries if one.is_folder}
        event = snap.UndoFinished(
            at=time.time(),
            of=begun,
            restored=len(own),
            folders=sum(name in folders for name, _ in own),
            own=tuple(own[:NAMES_MAX]),
            left=tuple(result.failed)[:NAMES_MAX],
            left_total=len(result.failed),
            resumed=result.first is None,
        )
        await self._parts.goals.emit(core, event)
        return replace(result, finished=event)
