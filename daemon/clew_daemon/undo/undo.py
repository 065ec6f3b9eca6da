"""Performs an undo: the present is kept as a snapshot, what is restored is on record, and then it is restored.

An undo that was cut off is completed before the goal does anything else. Restoring an entry twice changes nothing.
What grows with the number of files is computed in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import structlog

from clew_daemon.host.git import program
from clew_daemon.processes.executor import ExecutorDied
from clew_daemon.undo import scope
from clew_daemon.undo.planning import PlannedUndo, UndoRefused, planned_undo
from clew_daemon.undo.restoration import restoration, unpacked
from clew_daemon.undo.visit import VisitFailed, visit
from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode
from clew_shared.record.touched import NAMES_MAX
from clew_shared.snapshots.plan import Restored, UndoPlan
from clew_shared.snapshots.store import at

if TYPE_CHECKING:
    from clew_daemon.parts import DaemonParts
    from clew_daemon.session.launcher import Launcher
    from clew_daemon.undo.restoration import Restoration
    from clew_daemon.undo.scope import Span
    from clew_daemon.undo.visit import WorkspaceVisit
    from clew_shared.core.core import Core
    from clew_shared.record import events as ev
    from clew_shared.record.snapshot_events import GitPlace
    from clew_shared.snapshots.store import SnapshotStore

log = structlog.get_logger()

ELSEWHERE = "the workspace is another folder now"


@dataclass(frozen=True, slots=True)
class GitMoved:
    """HEAD or the index of the user's repository is not where it was: nothing is restored."""

    before: GitPlace
    now: GitPlace
    commits: list[str]


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What an undo would do, or has done (`done`); `moved` is why it does nothing.

    `git_gone`: the user's repository was there at the snapshot gone back to, and is not now. `changed` are names that
    were changed while it was performed, and `failed` is why others could not be restored: both are left as they are.
    `left_out` are files that are in no snapshot. `resumed`: nothing was planned, because an undo that had been cut off
    was completed instead.
    """

    planned: PlannedUndo
    moved: GitMoved | None = None
    git_gone: bool = False
    left_out: tuple[snap.LeftOut, ...] = ()
    left_out_total: int = 0
    done: bool = False
    restored: int = 0
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
            is_empty = not (result.plan.restore or (theirs and result.plan.left))
            if result.moved or is_other or is_empty:
                return result
            work, body = await asyncio.to_thread(_work, result.planned, theirs=theirs)
            begun = await self._begin(core, result.span, work, body, theirs=theirs)
            return await self._restore(core, begun, work, there, result)

    async def complete(self, core: Core) -> None:
        """Complete an undo that an earlier daemon did not; raises VisitFailed, StoreError."""
        async with visit(self._parts, core, self._launcher) as there:
            await self._complete(core, there)

    # -- planning --------------------------------------------------------------------------------------

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
            found.git is not None and present.git is None,
            present.left_out,
            present.left_out_total,
        )

    def _found(self, goal: str, subtask: tuple[int, int] | None, *, theirs: bool) -> PlannedUndo:
        return planned_undo(self.store(goal), self._rows(goal), subtask, theirs=theirs)

    def _rows(self, goal: str) -> list[tuple[int, ev.Event]]:
        """Read the record of a goal; it blocks."""
        return [(row.seq, decode(row.body)) for row in self._parts.goals.ledger.read(goal)]

    def store(self, goal: str) -> SnapshotStore:
        """Return the store of a goal; raises StoreError without a usable git."""
        return at(self._parts.places.snapshots / goal, program(self._parts.keys.env))

    # -- restoring -------------------------------------------------------------------------------------

    async def _begin(
        self, core: Core, span: Span, work: Restoration, body: bytes, *, theirs: bool
    ) -> int:
        """Record what will be restored, before anything is; return the number of that event."""
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

    async def _complete(self, core: Core, there: WorkspaceVisit) -> UndoResult | None:
        """Complete the undo that is under way on record, and return what it did; None where there is none."""
        begun = core.state.snapshots.undoing
        if not begun:
            return None
        goal = core.state.goal_id
        work = await asyncio.to_thread(self._recorded, begun)
        log.info("undo.resumed", goal=goal, undo=begun)
        started = dict(await asyncio.to_thread(self._rows, goal))[begun]
        assert isinstance(started, snap.UndoStarted)  # noqa: S101 - `undoing` is the number of one
        planned = PlannedUndo(scope.of_undo(started), UndoPlan(), work.tree)
        result = UndoResult(planned, resumed=True)
        if _is_elsewhere(core, started):
            return await self._leave(core, begun, work, result)
        return await self._restore(core, begun, work, there, result)

    async def _leave(
        self, core: Core, begun: int, work: Restoration, result: UndoResult
    ) -> UndoResult:
        """End an undo that was cut off in another folder than the workspace of now; all files are left."""
        left = [one.name for one in work.entries]
        finished = await self._finish(core, begun, [], left, resumed=True)
        return _done(result, finished, dict.fromkeys(left, ELSEWHERE))

    def _recorded(self, begun: int) -> Restoration:
        return unpacked(self._parts.goals.ledger.output(begun))

    async def _restore(
        self,
        core: Core,
        begun: int,
        work: Restoration,
        there: WorkspaceVisit,
        result: UndoResult,
    ) -> UndoResult:
        """Restore what is on record, and record that it is done; return the plan with what came of it."""
        own: list[tuple[str, str]] = []
        left: list[str] = []
        failed: dict[str, str] = {}
        async for done in there.restore(work):
            own += done.restored
            left += done.left
            failed |= done.faults
        finished = await self._finish(core, begun, own, left, resumed=result.resumed)
        with contextlib.suppress(VisitFailed, ExecutorDied):  # the next one shows the same
            await there.snapshot("undone")
        return _done(result, finished, failed)

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


def _done(result: UndoResult, finished: snap.UndoFinished, failed: dict[str, str]) -> UndoResult:
    """Return the result of an undo that is complete."""
    changed = tuple(name for name in finished.left if name not in failed)
    return replace(result, done=True, restored=finished.restored, changed=changed, failed=failed)


def _work(planned: PlannedUndo, *, theirs: bool) -> tuple[Restoration, bytes]:
    """Return what is restored, and how that is recorded."""
    entries = list(planned.plan.restore)
    if theirs:
        entries += [Restored(one.name, one.present, one.wanted) for one in planned.plan.left]
    work = restoration(planned.tree, entries, planned.others)
    return work, work.packed()


def _is_elsewhere(core: Core, started: snap.UndoStarted) -> bool:
    """Return whether a person has accepted another folder as the workspace since an undo began."""
    then, now = started.workspace, core.state.workspace
    return bool(then and now and not then.is_same(now))


async def _moved(
    before: GitPlace | None, now: GitPlace | None, there: WorkspaceVisit
) -> GitMoved | None:
    """Return how the user's repository has moved, None where it has not."""
    if before == now or before is None or now is None:
        return None
    commits = []
    if before.commit and now.commit and before.commit != now.commit:
        commits = await there.commits(before.commit, now.commit)
    return GitMoved(before, now, commits)


def _no_snapshot(core: Core) -> str:
    why = core.state.snapshots.missing or "it has not started, or it ran with an earlier version"
    return f"there is no snapshot: {why}"
