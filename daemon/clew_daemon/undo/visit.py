"""A visit to a goal's workspace without an agent: an executor that only takes and restores snapshots."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Iterator, Sequence

from clew_daemon.host.tasks import to_its_end
from clew_daemon.parts import DaemonParts
from clew_daemon.processes import workspace_guard
from clew_daemon.processes.executor import ExecutorDied, ExecutorProcess
from clew_daemon.processes.nursery import SpawnError
from clew_daemon.processes.workspace_guard import WorkspaceGuard
from clew_daemon.session.executors import ExecutorPool
from clew_daemon.session.launcher import CellSpecs, Launcher
from clew_daemon.session.snapshots import ask_snapshot, record
from clew_daemon.undo.planning import kept_folders
from clew_daemon.undo.view import NOTHING_IN_GIT, GitView, MovedView, cut, name_view
from clew_shared.core.core import Core
from clew_shared.record.snapshot_events import GitPlace, SnapshotMoment, SnapshotTaken
from clew_shared.snapshots.entries import Reverted
from clew_shared.snapshots.names import quoted
from clew_shared.snapshots.plan import UndoPlan
from clew_shared.text.plain import plain
from clew_shared.text.redact import redact
from clew_shared.wire.executor import RESTORE_MAX, CheckRequest, RestoreDone, RestoreRequest

GIT = "git --no-pager -c log.showSignature=false -c core.fsmonitor=false"
GIT_LOG = f"{GIT} log --oneline --no-decorate -n 20 --end-of-options"
GIT_STASHES = f"{GIT} log -g -n 100 --format='%H %gd: %gs' --end-of-options refs/stash --"
FIND_REPOSITORIES = """\
find . -xdev -type d -name objects -prune | head -n 1000 | while IFS= read -r objects; do
    folder=${{objects%/objects}}
    [ -f "$folder/HEAD" ] && [ -d "$folder/refs" ] || continue
    git --git-dir="$folder" cat-file -e {commit} 2>/dev/null && printf '%s\\n' "${{folder#./}}"
done"""
GIT_LOG_S = 20.0
END_S = 10.0
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
        done = await ask_snapshot(self._parts, self._core, self._executor)
        event = await record(self._parts, self._core, done, moment)
        if event is None:
            raise VisitFailed(f"no snapshot can be taken: {done.fault}")
        return event

    async def restore(self, work: UndoPlan) -> AsyncIterator[RestoreDone]:
        """Restore entries of a snapshot, some at a time; those that are restored already stay as they are."""
        for part in batches(work.entries):
            kept = kept_folders(part, work.kept)
            yield await self._executor.restore(RestoreRequest(entries=tuple(part), kept=kept))

    async def git_since(self, before: GitPlace | None, now: GitPlace | None) -> GitView:
        """Return what an undo leaves to a person to do in git, where that has changed since."""
        git = NOTHING_IN_GIT.copy()
        if before is None or now is None:  # where there is one, `made` or `gone`
            found = await self._repositories(before.commit) if before else []
            git["git_gone"], git["git_made"] = before is not None, now is not None
            git["git_found"] = cut(map(name_view, found))
            return git
        if before.has_moved_to(now):
            was, is_now = ({"branch": at.branch, "commit": at.commit} for at in (before, now))
            commits = [redact(line) for line in await self._commits(before, now)]
            git["moved"] = MovedView(before=was, now=is_now, commits=commits)
        git["staged"] = before.index != now.index
        if before.stash is not None and before.stash != now.stash:
            # The commit of each stash with its name and text, newest first; none where git fails.
            lines = [line.partition(" ") for line in await self._said(GIT_STASHES)]
            if before.stash and before.stash not in {commit for commit, _, _ in lines}:
                git["lost_stash"] = before.stash
            else:
                new = itertools.takewhile(lambda line: line[0] != before.stash, lines)
                git["stashes"] = [redact(text) for _, _, text in new]
        return git

    async def _repositories(self, commit: str) -> list[str]:
        """Return the folders below that are git repositories and have a commit: a `.git` was renamed."""
        found = await self._said(FIND_REPOSITORIES.format(commit=commit)) if commit else []
        return [quoted(os.fsencode(path)) for path in found]

    async def _commits(self, before: GitPlace, now: GitPlace) -> list[str]:
        """Return the commits between two, as `git log --oneline` shows them, newest first; [] where git fails."""
        if not (before.commit and now.commit) or before.commit == now.commit:
            return []
        return await self._said(f"{GIT_LOG} {before.commit}..{now.commit} --")

    async def _said(self, cmd: str) -> list[str]:
        """Return what a command prints, which runs as those of the goal do; [] where it fails."""
        request = CheckRequest(
            name="git", cmd=cmd, timeout_s=GIT_LOG_S, output_bytes=10_000, own=False
        )
        done = await self._executor.check(request)
        return done.output.splitlines() if done.result == "success" else []


def batches(entries: Sequence[Reverted]) -> Iterator[list[Reverted]]:
    """Yield entries in requests that fit on a line of the wire, in order."""
    batch: list[Reverted] = []
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
        await to_its_end(executors.end(), END_S)  # nothing outlives a run that is cancelled now
