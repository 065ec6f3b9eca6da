"""Performs an undo: the present is kept as a snapshot, what is restored is on record, and then it is restored.

An undo that was cut off is completed before the goal does anything else. Restoring an entry twice changes nothing.
What grows with the number of files is computed in threads.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from clew_daemon.parts import DaemonParts
from clew_daemon.session.launcher import Launcher
from clew_daemon.undo.on_record import RecordedUndo, UndoOutcome
from clew_daemon.undo.planning import (
    Gone,
    PlannedUndo,
    Restoration,
    UndoRefused,
    gone,
    planned_undo,
    restoration,
)
from clew_daemon.undo.scope import Span
from clew_daemon.undo.visit import WorkspaceVisit, visit
from clew_shared.core.core import Core
from clew_shared.record import snapshot_events as snap
from clew_shared.record.snapshot_events import GitPlace
from clew_shared.snapshots.plan import UndoPlan


@dataclass(frozen=True, slots=True)
class GitMoved:
    """HEAD of the user's repository is not where it was: nothing is restored."""

    before: GitPlace
    now: GitPlace
    commits: list[str]


@dataclass(frozen=True, slots=True)
class GitNotes:
    """What an undo of files leaves to a person to do in git.

    `gone`: the user's repository was there at the snapshot gone back to, and is not now; `found` are the folders that
    it may have been renamed to. `made`: there was none. `before` and `now` are where it stood and stands, where the
    index is another. `stashes` are new, and `lost_stash` is the commit of one that is not in the list any more.
    """

    gone: bool = False
    found: tuple[str, ...] = ()
    made: bool = False
    before: GitPlace | None = None
    now: GitPlace | None = None
    stashes: tuple[str, ...] = ()
    lost_stash: str = ""


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What an undo would do, or has done (`done`); `moved` is why it does nothing.

    `overwritten`: what was left to others was restored, too. `restored` counts files, `folders` empty ones. `changed`
    are names that were changed while it was performed, and `failed` is why others could not be restored: both are left
    as they are. `gone` and `left_out` are files that are in no snapshot. `resumed`: nothing was planned, because an
    undo that had been cut off was completed instead.
    """

    planned: PlannedUndo
    moved: GitMoved | None = None
    git: GitNotes = GitNotes()
    gone: tuple[Gone, ...] = ()
    left_out: tuple[snap.LeftOut, ...] = ()
    left_out_total: int = 0
    done: bool = False
    overwritten: bool = False
    restored: int = 0
    folders: int = 0
    changed: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    resumed: bool = False

    @property
    def span(self) -> Span:
        """What is undone."""
        return self.planned.span

    @property
    def plan(self) -> UndoPlan:
        """What is restored, and what is left."""
        return self.planned.plan


class Undo:
    """Undoes the changes of goals; a goal that is being undone must have no worker meanwhile."""

    def __init__(self, parts: DaemonParts, launcher: Launcher) -> None:
        self._parts = parts
        self._launcher = launcher
        self._record = RecordedUndo(parts)

    async def preview(
        self, core: Core, subtask: tuple[int, int] | None, *, theirs: bool
    ) -> UndoResult:
        """Return what undoing a goal, or one subtask, would do; raises UndoRefused, VisitFailed, StoreError.

        If an undo of the goal was cut off, it is completed, and that is returned instead.
        """
        async with visit(self._parts, core, self._launcher) as there:
            if resumed := await self._complete(core, there):
                return resumed
            return await self._planned(core, subtask, there, theirs=theirs)

    async def perform(
        self,
        core: Core,
        subtask: tuple[int, int] | None,
        *,
        theirs: bool,
        expected: str | None = None,
    ) -> UndoResult:
        """Undo a goal, or one subtask, or complete an undo of the goal that was cut off; raises as preview.

        `theirs`: what someone else has changed too, or what was changed again later, is overwritten. `expected` is
        the digest of the plan that was shown: nothing is restored if that has changed.
        """
        async with visit(self._parts, core, self._launcher) as there:
            if resumed := await self._complete(core, there):
                return resumed
            result = await self._planned(core, subtask, there, theirs=theirs)
            is_other = expected is not None and expected != result.planned.digest
            is_empty = not (result.plan.restore or (theirs and result.plan.overwritten))
            if result.moved or is_other or is_empty:
                return result
            work = await asyncio.to_thread(_work, result.planned, theirs=theirs)
            done = await self._record.carry_out(core, result.span, work, there, theirs=theirs)
            return _done(replace(result, overwritten=theirs), done)

    async def complete(self, core: Core) -> None:
        """Complete an undo that an earlier daemon did not; raises VisitFailed, StoreError."""
        async with visit(self._parts, core, self._launcher) as there:
            await self._complete(core, there)

    async def _planned(
        self,
        core: Core,
        subtask: tuple[int, int] | None,
        there: WorkspaceVisit,
        *,
        theirs: bool,
    ) -> UndoResult:
        """Plan an undo; where nothing is left to undo, the reversal of the last one. Raises as preview."""
        if not core.state.snapshots.first:
            raise UndoRefused(_no_snapshot(core))
        present = await there.snapshot("undo")
        with self._parts.children.starting_own():  # git
            goal = core.state.goal_id
            found = await asyncio.to_thread(self._found, goal, subtask, theirs=theirs)
        return UndoResult(
            found,
            await _moved(found.git, present.git, there),
            await _notes(found.git, present.git, there),
            await asyncio.to_thread(gone, found, core.state.spec.workspace),
            present.left_out,
            present.left_out_total,
        )

    def _found(self, goal: str, subtask: tuple[int, int] | None, *, theirs: bool) -> PlannedUndo:
        record = self._record
        return planned_undo(record.store(goal), record.rows(goal), subtask, theirs=theirs)

    async def _complete(self, core: Core, there: WorkspaceVisit) -> UndoResult | None:
        """Complete the undo that is under way on record, and return what it did; None where there is none."""
        done = await self._record.complete(core, there)
        if done is None:
            return None
        planned = PlannedUndo(done.span, UndoPlan(), done.tree)
        return _done(UndoResult(planned, resumed=True), done)


def _done(result: UndoResult, done: UndoOutcome) -> UndoResult:
    """Return the result of an undo that is complete."""
    failed, finished = done.failed, done.finished
    changed = tuple(name for name in finished.left if name not in failed)
    return replace(
        result,
        done=True,
        restored=finished.restored - finished.folders,
        folders=finished.folders,
        changed=changed,
        failed=failed,
    )


def _work(planned: PlannedUndo, *, theirs: bool) -> Restoration:
    """Return what is restored."""
    more = planned.plan.overwritten if theirs else ()
    return restoration(planned.tree, (*planned.plan.restore, *more), planned.others)


async def _moved(
    before: GitPlace | None, now: GitPlace | None, there: WorkspaceVisit
) -> GitMoved | None:
    """Return how the user's repository has moved, None where it has not."""
    if before is None or now is None or not before.has_moved_to(now):
        return None
    commits = []
    if before.commit and now.commit and before.commit != now.commit:
        commits = await there.commits(before.commit, now.commit)
    return GitMoved(before, now, commits)


async def _notes(before: GitPlace | None, now: GitPlace | None, there: WorkspaceVisit) -> GitNotes:
    """Return what an undo leaves to a person to do in git."""
    if before is None or now is None:  # where there is one, `made` or `gone`
        found = await there.repositories(before.commit) if before else []
        return GitNotes(before is not None, tuple(found), now is not None)
    notes = GitNotes() if before.index == now.index else GitNotes(before=before, now=now)
    if before.stash is None or before.stash == now.stash:
        return notes
    stashes = dict(await there.stashes())
    names = list(stashes)
    if before.stash in names or not before.stash:
        new = names[: names.index(before.stash)] if before.stash else names
        return replace(notes, stashes=tuple(stashes[one] for one in new))
    return replace(notes, lost_stash=before.stash)


def _no_snapshot(core: Core) -> str:
    why = core.state.snapshots.missing or "it has not started, or it ran with an earlier version"
    return f"there is no snapshot: {why}"
