"""Puts the workspace back to where the current subtask began, before the next attempt at it (docs/snapshots.md).

It is an undo of the subtask that no person has asked for, while no agent runs. Where it is not possible, the workspace
stays as it is, and the next attempt's agent is told why.
"""

import asyncio
from collections.abc import Sequence

import structlog

from clew_daemon.host.tasks import to_its_end
from clew_daemon.parts import DaemonParts
from clew_daemon.processes.workspace_guard import WorkspaceGuard
from clew_daemon.undo.planning import NoSpanError, NothingDoneError, Rows, Spans, planned
from clew_daemon.undo.undo import Undo, VisitFailed, visit_within
from clew_shared.core.attempts import AttemptGround
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.snapshot_events import GitPlace
from clew_shared.snapshots.plan import PLAN_S, listed
from clew_shared.snapshots.store import StoreError
from clew_shared.text.redact import redact
from clew_shared.text.shorten import in_one_line
from clew_shared.views.publish import path_view

log = structlog.get_logger()

RESTORE_S = 60.0
"""How long the workspace may take to be put back; what has begun by then may take as long again."""

STOP_S = 10.0
"""How long a restore may go on where its goal is being stopped."""

COMPLETE_TRIES = 2
"""How often a restore that is on record is tried, each time with a new executor."""

WHY_CHARS = 200
LEFT_SHOWN = 10
"""How many names of files that were left an agent is shown."""


class RestoreUnfinishedError(Exception):
    """What is on record could not be restored now: it must be completed before anything else."""


class AttemptRestore:
    """Restores the workspaces of goals whose attempt is over; such a goal has no worker meanwhile."""

    def __init__(self, parts: DaemonParts) -> None:
        self._parts = parts
        self._undo = Undo(parts)

    async def perform(self, core: Core, guard: WorkspaceGuard) -> AttemptGround:
        """Put the workspace back in bounded time, after an undo that was cut off; raises RestoreUnfinishedError."""
        goal = core.state.goal_id
        await self._complete(core, guard)
        rows = await asyncio.to_thread(self._undo.rows, goal)
        before = _since_the_end(rows)
        if why := self._unwanted(core):
            return before if before.restored else AttemptGround(kept=why)
        try:
            async with asyncio.timeout(RESTORE_S):
                return await self._restored(core, guard, rows, before)
        except NothingDoneError:
            return AttemptGround()
        except (NoSpanError, VisitFailed, StoreError) as error:
            why = str(error)
        except TimeoutError:
            why = "restoring took too long"
        log.warning("attempt.kept", goal=goal, reason=why)
        await self._complete(core, guard)
        ground = _since_the_end(await asyncio.to_thread(self._undo.rows, goal))
        kept = AttemptGround(kept=in_one_line(redact(why), WHY_CHARS))
        return ground if ground.restored else kept

    async def _complete(self, core: Core, guard: WorkspaceGuard) -> None:
        """Complete an undo that is under way on record, if there is one; raises RestoreUnfinishedError."""
        why = ""
        for _ in range(COMPLETE_TRIES):
            if not core.state.snapshots.undoing:
                return
            try:
                async with (
                    asyncio.timeout(RESTORE_S),
                    visit_within(self._parts, core, guard) as there,
                ):
                    await self._undo.resume(core, there)
            except (VisitFailed, StoreError) as error:
                why = str(error)
            except TimeoutError:
                why = "it took too long"
        if core.state.snapshots.undoing:
            raise RestoreUnfinishedError(why)

    def _unwanted(self, core: Core) -> str:
        """Return why the workspace is to stay as it is, "" if it is to be restored."""
        settings = self._parts.settings_of(core.state.goal_id)
        if settings.attempts.restore == "keep":
            return "the config says so"
        if core.state.attempt.advancing:
            return "the last attempt was still making progress"
        if not settings.snapshots.enabled:
            return "snapshots are turned off"
        if not core.state.snapshots.first:
            why = core.state.snapshots.missing
            return in_one_line("there is no snapshot" + (f": {why}" if why else ""), WHY_CHARS)
        return ""

    async def _restored(
        self, core: Core, guard: WorkspaceGuard, rows: Rows, before: AttemptGround
    ) -> AttemptGround:
        """Restore what the attempts at the current subtask changed, and no one else has changed since."""
        span = Spans(rows).of_attempts(core.state.place)
        async with visit_within(self._parts, core, guard) as there:
            found, git = await self._undo.planned(
                core, there, lambda store, rows: planned(rows, listed(store.within(PLAN_S)), span)
            )
            if moved := _moved(found.git_before, git):
                return AttemptGround(kept=moved)
            left = [*before.left, *(one.name for one in found.plan.entries if one.reason)]
            if not found.plan.restore:
                return _ground(before.restored, left)
            work = self._undo.carry_out(core, found, there, theirs=False)
            done = await to_its_end(work, STOP_S)  # what is left is completed at the next start
            restored = done.finished.restored if done.finished else 0
            return _ground(before.restored + restored, [*left, *done.failed])


def _since_the_end(rows: Rows) -> AttemptGround:
    """Return what was restored since the last attempt ended, by a daemon that did not begin the next one."""
    restored, left, own = 0, list[str](), False
    for _, event in rows:
        match event:
            case ev.AttemptEnded():
                restored, left = 0, []
            case snap.UndoStarted():
                own = event.scope == "attempt"
            case snap.UndoFinished() if own:
                restored += event.restored
                left += event.left
            case _:
                pass
    return _ground(restored, left)


def _moved(before: GitPlace | None, now: GitPlace | None) -> str:
    """Return how the user's repository has moved since the subtask began, "" if it has not."""
    if before is None:
        return ""
    if now is None:
        return "the git repository is gone"
    if before.branch != now.branch:
        return "another git branch is checked out"
    if before.commit != now.commit:
        return "there are new commits"
    return "other changes are staged in git" if before.index != now.index else ""


def _ground(restored: int, left: Sequence[str]) -> AttemptGround:
    names = sorted({path_view(name)["path"] for name in left})
    return AttemptGround(restored, "", tuple(names[:LEFT_SHOWN]))
