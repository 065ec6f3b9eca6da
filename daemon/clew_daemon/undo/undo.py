"""Performs an undo, by an executor that visits the workspace while no agent works there.

The present is kept as a snapshot, what is restored goes on record, and then it is restored. An undo that was cut off is
completed before the goal does anything else. Restoring an entry twice changes nothing.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

import structlog

from clew_daemon.host.git import program
from clew_daemon.host.tasks import to_its_end
from clew_daemon.parts import DaemonParts
from clew_daemon.processes import workspace_guard
from clew_daemon.processes.executor import ExecutorFault, ExecutorProcess
from clew_daemon.processes.nursery import SpawnError
from clew_daemon.processes.workspace_guard import WorkspaceGuard
from clew_daemon.record.pages import event_at
from clew_daemon.session.snapshots import ask_snapshot, record
from clew_daemon.session.worker import ExecutorPool
from clew_daemon.undo import planning
from clew_daemon.undo.planning import Rows, UndoResult, of_undo
from clew_daemon.undo.view import GitView, MovedView, NameView, UndoView, cut, name_view
from clew_shared.core.core import Core
from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode
from clew_shared.record.snapshot_events import GitPlace, SnapshotMoment, SnapshotTaken, UndoFinished
from clew_shared.record.state import State
from clew_shared.record.touched import NAMES_MAX
from clew_shared.snapshots.entries import Reverted
from clew_shared.snapshots.names import batches
from clew_shared.snapshots.store import SnapshotStore, at
from clew_shared.text.plain import plain
from clew_shared.text.redact import redact
from clew_shared.wire import executor as wire
from clew_shared.wire.executor import RESTORE_MAX

log = structlog.get_logger()

ELSEWHERE = "the workspace is another folder now"
GIT_LOG = (
    "git --no-pager -c log.showSignature=false -c core.fsmonitor=false "
    "log --oneline --no-decorate -n 20 --end-of-options"
)
GIT_LOG_S = 20.0
END_S = 10.0
BATCH_CHARS = 200_000  # of the names in one request: its answer names them again


class VisitFailed(Exception):
    """The workspace cannot be worked in now; the text says why."""


class WorkspaceVisit:
    """One executor in a goal's workspace, where no agent works meanwhile."""

    def __init__(self, parts: DaemonParts, core: Core, executor: ExecutorProcess) -> None:
        self._parts = parts
        self._core = core
        self._executor = executor

    async def snapshot(self, moment: SnapshotMoment) -> SnapshotTaken:
        """Take and record a snapshot; raises VisitFailed where none can be taken."""
        done = await ask_snapshot(self._parts, self._core, self._executor)
        event = await record(self._parts, self._core, done, moment)
        if event is None:
            raise VisitFailed(f"no snapshot can be taken: {done.fault}")
        return event

    async def planned(
        self, plan: Callable[[SnapshotStore, Rows], UndoResult]
    ) -> tuple[UndoResult, GitPlace | None]:
        """Take a snapshot of the present, and plan from all on record; return where the repository stands, too."""
        parts, goal, present = self._parts, self._core.state.goal_id, await self.snapshot("undo")

        def found() -> UndoResult:
            store = at(parts.places.snapshots / goal, program(parts.keys.env))
            return plan(store, rows_of(parts, goal))

        with parts.children.starting_own():  # git
            return await asyncio.to_thread(found), present.git

    async def carry_out(self, result: UndoResult) -> UndoResult:
        """Record what will be restored, and restore it."""
        core, span = self._core, result.span
        work = await asyncio.to_thread(planning.restoration, result.plan)
        event = snap.UndoStarted(
            at=time.time(), scope=span.scope, task_idx=span.place[0], subtask_idx=span.place[1],
            first=span.first, last=span.last, entries=len(result.plan.restore), workspace=core.state.workspace,
        )  # fmt: skip
        begun = await self._begin(event, work)
        return await self._restore(begun, work, result)

    async def _begin(self, event: snap.UndoStarted, work: Sequence[Reverted]) -> int:
        body = await asyncio.to_thread(planning.packed, work)
        with self._parts.goals.entering(self._core):
            begun = self._core.emit(event, body)
        await self._parts.goals.commit(self._core)
        return begun

    async def resume(self) -> UndoResult | None:
        """Complete the undo that is under way, None without one; in another folder all is left. Raises StoreError."""
        state, ledger = self._core.state, self._parts.goals.ledger
        begun = state.snapshots.undoing
        if not begun:
            return None
        work = await asyncio.to_thread(lambda: planning.unpacked(ledger.output(begun)))
        log.info("undo.resumed", goal=state.goal_id, undo=begun)
        started = await asyncio.to_thread(event_at, ledger, state.goal_id, begun)
        assert isinstance(started, snap.UndoStarted)  # noqa: S101 - `undoing` is the number of one
        then, now, result = started.workspace, state.workspace, UndoResult(of_undo(started))
        if then and now and not then.is_same(now):
            files = (one.name for one in work if not one.is_folder)
            failed = dict.fromkeys(files, ELSEWHERE)
            return await self._finish(begun, 0, replace(result, failed=failed))
        return await self._restore(begun, work, result)

    async def _restore(
        self, begun: int, work: Sequence[Reverted], result: UndoResult
    ) -> UndoResult:
        """Restore what is on record, some entries at a time; those that are restored already stay as they are."""
        restored, removed, failed = 0, 0, dict[str, str]()
        for part in batches(work, lambda one: len(one.name), RESTORE_MAX, BATCH_CHARS):
            done = await self._executor.restore(wire.RestoreRequest(entries=tuple(part)))
            restored += len(done.restored)
            removed += len({one.name for one in part if not one.wanted}.intersection(done.restored))
            failed |= dict.fromkeys(done.left, "") | done.faults
        result = replace(result, failed=failed, removed=removed)
        result = await self._finish(begun, restored, result)
        with contextlib.suppress(VisitFailed, ExecutorFault):  # the next one shows the same
            await self.snapshot("undone")
        return result

    async def _finish(self, begun: int, restored: int, result: UndoResult) -> UndoResult:
        event = snap.UndoFinished(
            at=time.time(), of=begun, restored=restored, resumed=result.first is None,
            left=tuple(result.failed)[:NAMES_MAX], left_total=len(result.failed),
        )  # fmt: skip
        await self._parts.goals.emit(self._core, event)
        return replace(result, finished=event)

    async def git_since(self, before: GitPlace | None, now: GitPlace | None) -> GitView:
        """Return what an undo leaves to a person to do in git, where that has changed since."""
        if before is None or now is None:
            return GitView(moved=None, git_gone=before is not None, staged=False)
        moved = None
        if (before.branch, before.commit) != (now.branch, now.commit):
            was, is_now = ({"branch": at.branch, "commit": at.commit} for at in (before, now))
            commits = list[str]()  # newest first
            if before.commit and now.commit and before.commit != now.commit:
                commits = await self._commits(f"{before.commit}..{now.commit}")
            moved = MovedView(before=was, now=is_now, commits=commits)
        return GitView(moved=moved, git_gone=False, staged=before.index != now.index)

    async def _commits(self, between: str) -> list[str]:
        """Return a line on each commit; git runs as the goal's commands do. [] where it fails."""
        request = wire.CheckRequest(
            name="git", cmd=f"{GIT_LOG} {between} --", timeout_s=GIT_LOG_S, output_bytes=10_000,
            own=False,
        )  # fmt: skip
        done = await self._executor.check(request)
        return redact(done.output).splitlines() if done.result == "success" else []


def rows_of(parts: DaemonParts, goal: str) -> Rows:
    """Read the record of a goal; it blocks."""
    return [(row.seq, decode(row.body)) for row in parts.goals.ledger.read(goal)]


@contextlib.asynccontextmanager
async def visit(parts: DaemonParts, core: Core) -> AsyncIterator[WorkspaceVisit]:
    """Enter a goal's workspace with an executor, which is ended with everything that it started.

    Raises VisitFailed where another folder is there, something else works in it, or no executor can be started.
    """
    state = core.state
    try:
        guard = await asyncio.to_thread(
            workspace_guard.enter, state.spec.workspace, state.workspace, make=False
        )
    except OSError as error:
        raise VisitFailed(plain(error)) from error
    if isinstance(guard, workspace_guard.Missing):
        raise VisitFailed(guard.detail)
    with contextlib.closing(guard):
        if other := guard.occupy():
            raise VisitFailed(f"{other} works in {state.spec.workspace}")
        async with visit_within(parts, core, guard) as there:
            yield there


@contextlib.asynccontextmanager
async def visit_within(
    parts: DaemonParts, core: Core, guard: WorkspaceGuard
) -> AsyncIterator[WorkspaceVisit]:
    """Visit a goal's workspace, which its run has entered already; raises VisitFailed where no executor works."""
    executors = ExecutorPool(parts, core.state, core.state.epoch, guard)
    try:
        yield WorkspaceVisit(parts, core, await executors.executor())
    except (ExecutorFault, SpawnError, OSError) as error:
        raise VisitFailed(f"the executor failed: {plain(error)}") from error
    finally:
        await to_its_end(executors.end(), END_S)  # nothing outlives a run that is cancelled now


async def undo(
    parts: DaemonParts,
    core: Core,
    subtask: tuple[int, int] | None,
    *,
    perform: bool = False,
    expected: str | None = None,
) -> UndoResult:
    """Return what undoing a goal, or one subtask, would do, or do it (`perform`); it must have no worker meanwhile.

    If an undo of the goal was cut off, it is completed, and that is returned instead. `expected` is the digest of the
    plan that was shown: nothing is restored if that has changed. Raises UndoRefused, VisitFailed, StoreError.
    """
    async with visit(parts, core) as there:
        if resumed := await there.resume():
            return resumed
        known = core.state.snapshots
        if not known.first:
            why = known.missing or "it has not started, or it ran with an earlier version"
            raise planning.UndoRefused(f"there is no snapshot: {why}")
        result, now = await there.planned(
            lambda store, rows: planning.planned_undo(store, rows, subtask)
        )
        git = await there.git_since(result.git_before, now)
        gone = await asyncio.to_thread(planning.gone, result, core.state.spec.workspace)
        result = replace(result, git=git, gone=gone)
        is_other = expected is not None and expected != result.digest
        if not perform or git["moved"] or is_other or not result.plan.restore:
            return result
        return await there.carry_out(result)


def undo_view(state: State, result: UndoResult) -> UndoView:
    """Return an undo as JSON."""
    span, plan, left_out = result.span, result.plan, result.present or SnapshotTaken(tree="")
    is_subtask = span.scope == "subtask"
    finished = result.finished or UndoFinished(of=0)
    failed = {name: why for name, why in result.failed.items() if why}
    changed = [name for name, why in result.failed.items() if not why]
    return {
        "id": state.goal_id,
        "workspace": state.spec.workspace,
        "scope": span.scope,
        "subtask": f"{span.place[0] + 1}.{span.place[1] + 1}" if is_subtask else None,
        "plan": result.digest,
        "done": result.finished is not None,
        "resumed": finished.resumed,
        "restored": finished.restored,
        "removed": result.removed,
        "gone": cut(name_view(one.path, why=one.why, bytes=one.bytes) for one in result.gone),
        "gone_total": len(result.gone),
        "entries": cut(map(_entry, plan.restore)),
        "entries_total": len(plan.restore),
        "left": cut(map(_entry, plan.left)),
        "left_total": len(plan.left),
        "changed": cut(map(name_view, changed)),
        "failed": cut(name_view(name, reason=redact(why)) for name, why in failed.items()),
        "left_out": left_out.left_out_total,
        "left_out_names": [name_view(one.path, why=one.why) for one in left_out.left_out[:10]],
        "ended": state.ended,
        **result.git,
    }


def _entry(one: Reverted) -> NameView:
    action = "create" if one.present is None else "restore"
    more: NameView = {"action": action if one.wanted else "remove"}
    if one.reason:
        more["reason"] = one.reason
    return name_view(one.name, **more)
