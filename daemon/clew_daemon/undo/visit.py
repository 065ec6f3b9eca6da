"""A visit to a goal's workspace without an agent: an executor that only takes and restores snapshots."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from clew_daemon.processes import workspace_guard
from clew_daemon.processes.executor import ExecutorDied
from clew_daemon.processes.nursery import SpawnError
from clew_daemon.session.cell_specs import CellSpecs
from clew_daemon.session.executors import ExecutorPool
from clew_daemon.session.snapshots import ask_snapshot, record
from clew_shared.snapshots.plan import above_removed
from clew_shared.text.git_names import commit_name
from clew_shared.text.plain import plain
from clew_shared.wire.executor import RESTORE_MAX, RestoreEntry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from clew_daemon.parts import DaemonParts
    from clew_daemon.processes.executor import ExecutorProcess
    from clew_daemon.processes.workspace_guard import WorkspaceGuard
    from clew_daemon.session.launcher import Launcher
    from clew_daemon.undo.restoration import Restoration
    from clew_shared.core.core import Core
    from clew_shared.record.snapshot_events import GitPlace, SnapshotMoment, SnapshotTaken
    from clew_shared.snapshots.plan import Restored
    from clew_shared.wire.executor import RestoreDone, SnapshotDone

GIT_LOG = (
    "git --no-pager -c log.showSignature=false -c core.fsmonitor=false -c core.pager=cat"
    " log --oneline --no-decorate -n 20 --end-of-options"
)
GIT_LOG_S = 20.0
BATCH_CHARS = 200_000
"""How long the names of one request may be together: its answer names them again."""


class VisitFailed(Exception):
    """The workspace cannot be worked in now; the text says why."""


class WorkspaceVisit:
    """One executor in a goal's workspace."""

    def __init__(self, parts: DaemonParts, core: Core, executor: ExecutorProcess) -> None:
        self._parts = parts
        self._core = core
        self._executor = executor

    async def snapshot(self, moment: SnapshotMoment) -> SnapshotTaken:
        """Take and record a snapshot; raises VisitFailed where none can be taken."""
        return await self._recorded(
            await ask_snapshot(self._parts, self._core, self._executor), moment
        )

    async def _recorded(self, done: SnapshotDone, moment: SnapshotMoment) -> SnapshotTaken:
        event = await record(self._parts, self._core, done, moment)
        if event is None:
            raise VisitFailed(f"no snapshot can be taken: {done.fault}")
        return event

    async def look(self, *, known: bool) -> GitPlace | None:
        """Return where the user's repository stands, and take a snapshot, or go by the last one.

        `known`: the last one has all that actions did, so that it is not recorded again where nothing has changed
        since. Raises VisitFailed as snapshot.
        """
        done = await ask_snapshot(self._parts, self._core, self._executor)
        is_new = done.tree != self._core.state.snapshots.last
        if done.fault or is_new or not known:
            return (await self._recorded(done, "undo")).git
        return done.git

    async def restore(self, work: Restoration) -> AsyncIterator[RestoreDone]:
        """Restore entries of a snapshot, some at a time; those that are restored already stay as they are."""
        others = frozenset(work.others)
        for part in batches(work.entries):
            yield await self._executor.restore(
                tuple(
                    RestoreEntry(name=one.name, present=one.present, wanted=one.wanted)
                    for one in part
                ),
                tree=work.tree,
                others=above_removed(part, others) if others else (),
            )

    async def commits(self, old: str, new: str) -> list[str]:
        """Return the commits between two, as `git log --oneline` shows them, newest first; [] where git fails."""
        if not (commit_name(old) and commit_name(new)):  # a shell reads them
            return []
        cmd = f"{GIT_LOG} {old}..{new} --"
        done = await self._executor.check("git log", cmd, timeout_s=GIT_LOG_S, output_bytes=10_000)
        return done.output.splitlines() if done.result == "success" else []


def batches(entries: Sequence[Restored]) -> Iterator[list[Restored]]:
    """Yield entries in requests that fit on a line of the wire, in order."""
    batch: list[Restored] = []
    room = BATCH_CHARS
    for entry in entries:
        room -= len(entry.name)
        if batch and (room < 0 or len(batch) >= RESTORE_MAX):
            yield batch
            batch, room = [], BATCH_CHARS - len(entry.name)
        batch.append(entry)
    if batch:
        yield batch


@contextlib.asynccontextmanager
async def visit(
    parts: DaemonParts, core: Core, launcher: Launcher
) -> AsyncIterator[WorkspaceVisit]:
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
        async with visit_within(parts, core, launcher, guard) as there:
            yield there


@contextlib.asynccontextmanager
async def visit_within(
    parts: DaemonParts, core: Core, launcher: Launcher, guard: WorkspaceGuard
) -> AsyncIterator[WorkspaceVisit]:
    """Visit a goal's workspace, which its run has entered already; raises VisitFailed where no executor works."""
    specs = CellSpecs(parts, core.state, core.state.epoch, guard)
    executors = ExecutorPool(parts, specs, launcher)
    try:
        yield WorkspaceVisit(parts, core, await executors.executor())
    except (ExecutorDied, SpawnError, OSError) as error:
        raise VisitFailed(f"the executor failed: {plain(error)}") from error
    finally:
        await executors.end()
