"""Performs an undo: the present is kept as a snapshot, what is restored goes on record, and then it is restored.

An undo that was cut off is completed before the goal does anything else. Restoring an entry twice changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from dataclasses import dataclass, field, replace

import structlog

from clew_daemon.host.git import program
from clew_daemon.parts import DaemonParts
from clew_daemon.processes.executor import ExecutorDied
from clew_daemon.session.launcher import Launcher
from clew_daemon.undo.planning import (
    PlannedUndo,
    Restoration,
    UndoRefused,
    gone,
    planned_undo,
    restoration,
    unpacked,
)
from clew_daemon.undo.scope import Span, of_undo
from clew_daemon.undo.visit import VisitFailed, WorkspaceVisit, visit
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode
from clew_shared.record.snapshot_events import GitPlace
from clew_shared.record.touched import NAMES_MAX
from clew_shared.snapshots.plan import UndoPlan
from clew_shared.snapshots.store import SnapshotStore, at

log = structlog.get_logger()

ELSEWHERE = "the workspace is another folder now"


@dataclass(frozen=True, slots=True)
class GitMoved:
    """HEAD of the user's repository is not where it was: nothing is restored."""

    before: GitPlace
    now: GitPlace
    commits: list[str]


@dataclass(frozen=True, slots=True)
class GitNotes:
    """What an undo of files leaves to a person to do in git.

    `gone`: the user's repository is not there any more; `found` are the folders that it may have been renamed to.
    `made`: there was none. `staged`: the index is another. `stashes` are new, and `lost_stash` is the commit of one
    that is not in the list any more.
    """

    gone: bool = False
    found: tuple[str, ...] = ()
    made: bool = False
    staged: bool = False
    stashes: tuple[str, ...] = ()
    lost_stash: str = ""


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What an undo would do, or has done (`done`); `moved` is why it does nothing.

    `gone` and `left_out` are in no snapshot. `overwritten`: what was left to others was restored, too.
    `restored` counts files, `folders` empty ones. `changed` are names that were changed while it was performed, and
    `failed` is why others could not be restored: both are left as they are. `resumed`: nothing was planned, because
    an undo that had been cut off was completed instead.
    """

    planned: PlannedUndo
    git: GitNotes = GitNotes()
    gone: tuple[snap.LeftOut, ...] = ()
    moved: GitMoved | None = None
    left_out: tuple[snap.LeftOut, ...] = ()
    left_out_total: int = 0
    done: bool = False
    overwritten: bool = False
    restored: int = 0
    folders: int = 0
    changed: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    resumed: bool = False


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
        self, core: Core, result: UndoResult, there: WorkspaceVisit, *, theirs: bool
    ) -> UndoResult:
        """Record what will be restored, and restore it."""
        work = await asyncio.to_thread(restoration, result.planned, theirs=theirs)
        begun = await self._begin(core, result.planned.span, work, theirs=theirs)
        return await self._restore(core, begun, work, there, replace(result, overwritten=theirs))

    async def _begin(self, core: Core, span: Span, work: Restoration, *, theirs: bool) -> int:
        """Record what will be restored; return the number of that event."""
        body = await asyncio.to_thread(work.packed)
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

    async def complete(self, core: Core, there: WorkspaceVisit) -> UndoResult | None:
        """Complete the undo that is under way on record; None where there is none. Raises StoreError.

        Where a person has accepted another folder as the workspace since it began, all files are left.
        """
        begun = core.state.snapshots.undoing
        if not begun:
            return None
        ledger = self._parts.goals.ledger
        work = await asyncio.to_thread(lambda: unpacked(ledger.output(begun)))
        log.info("undo.resumed", goal=core.state.goal_id, undo=begun)
        started = dict(await asyncio.to_thread(self.rows, core.state.goal_id))[begun]
        assert isinstance(started, snap.UndoStarted)  # noqa: S101 - `undoing` is the number of one
        result = UndoResult(PlannedUndo(of_undo(started), UndoPlan()), resumed=True)
        then, now = started.workspace, core.state.workspace
        if then and now and not then.is_same(now):
            failed = dict.fromkeys((one.name for one in work.entries), ELSEWHERE)
            return await self._finish(core, begun, work, [], failed, result)
        return await self._restore(core, begun, work, there, result)

    async def _restore(
        self, core: Core, begun: int, work: Restoration, there: WorkspaceVisit, result: UndoResult
    ) -> UndoResult:
        """Restore what is on record, and record that it is done."""
        own: list[tuple[str, str]] = []
        left: dict[str, str] = {}
        async for done in there.restore(work):
            own += done.restored
            left |= dict.fromkeys(done.left, "") | done.faults
        result = await self._finish(core, begun, work, own, left, result)
        with contextlib.suppress(VisitFailed, ExecutorDied):  # the next one shows the same
            await there.snapshot("undone")
        return result

    async def _finish(
        self,
        core: Core,
        begun: int,
        work: Restoration,
        own: list[tuple[str, str]],
        left: dict[str, str],
        result: UndoResult,
    ) -> UndoResult:
        """Record that an undo is complete; `left` has why names could not be restored, "" where they had changed."""
        folders = {one.name for one in work.entries if one.is_folder}
        event = snap.UndoFinished(
            at=time.time(),
            of=begun,
            restored=len(own),
            folders=sum(name in folders for name, _ in own),
            own=tuple(own[:NAMES_MAX]),
            left=tuple(left)[:NAMES_MAX],
            left_total=len(left),
            resumed=result.resumed,
        )
        await self._parts.goals.emit(core, event)
        return replace(
            result,
            done=True,
            restored=event.restored - event.folders,
            folders=event.folders,
            changed=tuple(name for name, why in left.items() if not why),
            failed={name: why for name, why in left.items() if why},
        )


class Undo:
    """Undoes the changes of goals; a goal that is being undone must have no worker meanwhile."""

    def __init__(self, parts: DaemonParts, launcher: Launcher) -> None:
        self._parts = parts
        self._launcher = launcher
        self._record = RecordedUndo(parts)

    async def tree_now(self, core: Core) -> str:
        """Return the tree of a new snapshot of a goal's workspace; raises VisitFailed."""
        async with visit(self._parts, core, self._launcher) as there:
            return (await there.snapshot("end")).tree

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
            if resumed := await self._record.complete(core, there):
                return resumed
            result = await self._planned(core, subtask, there, theirs=theirs)
            found = result.planned.plan
            is_other = expected is not None and expected != result.planned.digest
            is_empty = not (found.restore or (theirs and found.overwritten))
            if not perform or result.moved or is_other or is_empty:
                return result
            return await self._record.carry_out(core, result, there, theirs=theirs)

    async def complete(self, core: Core) -> None:
        """Complete an undo that an earlier daemon did not; raises VisitFailed, StoreError."""
        async with visit(self._parts, core, self._launcher) as there:
            await self._record.complete(core, there)

    async def _planned(
        self, core: Core, subtask: tuple[int, int] | None, there: WorkspaceVisit, *, theirs: bool
    ) -> UndoResult:
        known = core.state.snapshots
        if not known.first:
            why = known.missing or "it has not started, or it ran with an earlier version"
            raise UndoRefused(f"there is no snapshot: {why}")
        present = await there.snapshot("undo")
        with self._parts.children.starting_own():  # git
            goal = core.state.goal_id
            found = await asyncio.to_thread(
                lambda: planned_undo(
                    self._record.store(goal), self._record.rows(goal), subtask, theirs=theirs
                )
            )
        before, now, moved = found.git, present.git, None
        if before and now and before.has_moved_to(now):
            moved = GitMoved(before, now, await there.commits(before, now))
        return UndoResult(
            found,
            await _notes(before, now, there),
            tuple(await asyncio.to_thread(gone, found, core.state.spec.workspace)),
            moved,
            present.left_out,
            present.left_out_total,
        )


async def _notes(before: GitPlace | None, now: GitPlace | None, there: WorkspaceVisit) -> GitNotes:
    """Return what an undo leaves to a person to do in git."""
    if before is None or now is None:  # where there is one, `made` or `gone`
        found = await there.repositories(before.commit) if before else []
        return GitNotes(before is not None, tuple(found), now is not None)
    notes = GitNotes(staged=before.index != now.index)
    if before.stash is None or before.stash == now.stash:
        return notes
    stashes = await there.stashes()
    if before.stash and before.stash not in stashes:
        return replace(notes, lost_stash=before.stash)
    new = itertools.takewhile(lambda commit: commit != before.stash, stashes)
    return replace(notes, stashes=tuple(stashes[commit] for commit in new))
