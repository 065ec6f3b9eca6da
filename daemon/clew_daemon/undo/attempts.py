"""Puts the workspace back to where the current subtask began, before the next attempt at it (docs/snapshots.md).

It is an undo of the subtask that no person has asked for, while no agent runs. Where it is not possible, the workspace
stays as it is, and the next attempt's agent is told why.
"""

import asyncio

import structlog

from clew_daemon.host.tasks import to_its_end
from clew_daemon.parts import DaemonParts
from clew_daemon.processes.workspace_guard import WorkspaceGuard
from clew_daemon.record.goal_status import path_view
from clew_daemon.undo import planning
from clew_daemon.undo.planning import Rows, Span
from clew_daemon.undo.undo import VisitFailed, WorkspaceVisit, rows_of, visit_within
from clew_shared.config.tables import Settings
from clew_shared.core.core import Core
from clew_shared.core.journal import AttemptGround
from clew_shared.record import events as ev
from clew_shared.record.snapshot_events import GitPlace
from clew_shared.record.state import State
from clew_shared.snapshots.plan import PLAN_S, listed
from clew_shared.snapshots.store import StoreError
from clew_shared.text.redact import redact
from clew_shared.text.shorten import in_one_line

log = structlog.get_logger()

RESTORE_S = 60.0  # for the workspace to be put back; what has begun by then may take as long again
STOP_S = 10.0  # how long a restore may go on where its goal is being stopped
COMPLETE_TRIES = 2  # for a restore that is on record, each with a new executor
WHY_CHARS = 200
LEFT_SHOWN = 10  # names of files that were left, for the agent


class RestoreUnfinishedError(Exception):
    """What is on record could not be restored now: it must be completed before anything else."""


async def put_back(parts: DaemonParts, core: Core, guard: WorkspaceGuard) -> AttemptGround:
    """Put the workspace of a goal back in bounded time, after an undo that was cut off; it has no worker meanwhile.

    Raises RestoreUnfinishedError.
    """
    goal, left = core.state.goal_id, list[str]()
    await _complete(parts, core, guard)
    rows = await asyncio.to_thread(rows_of, parts, goal)
    if not (why := _unwanted(parts.settings_of(goal), core.state)):
        try:
            span = planning.Spans(rows).of_attempts(core.state.place)
            async with asyncio.timeout(RESTORE_S), visit_within(parts, core, guard) as there:
                why, left = await _restored(there, span)
        except planning.NothingDone:
            return AttemptGround()
        except (planning.UndoRefused, VisitFailed, StoreError) as error:
            why = str(error)
        except TimeoutError:
            why = "restoring took too long"
        if why:
            log.warning("attempt.kept", goal=goal, reason=why)
        await _complete(parts, core, guard)
        rows = await asyncio.to_thread(rows_of, parts, goal)
    restored, failed = _since_the_end(rows)
    names = sorted({path_view(name)["path"] for name in (*left, *failed)})
    kept = "" if restored else in_one_line(redact(why), WHY_CHARS)
    return AttemptGround(restored, kept, tuple(names[:LEFT_SHOWN]))


async def _complete(parts: DaemonParts, core: Core, guard: WorkspaceGuard) -> None:
    """Complete an undo that is under way on record, if there is one; raises RestoreUnfinishedError."""
    why = ""
    for _ in range(COMPLETE_TRIES):
        if not core.state.snapshots.undoing:
            return
        try:
            async with asyncio.timeout(RESTORE_S), visit_within(parts, core, guard) as there:
                await there.resume()
        except (VisitFailed, StoreError) as error:
            why = str(error)
        except TimeoutError:
            why = "it took too long"
    if core.state.snapshots.undoing:
        raise RestoreUnfinishedError(why)


def _unwanted(settings: Settings, state: State) -> str:
    """Return why the workspace is to stay as it is, "" if it is to be restored."""
    if settings.attempts.restore == "keep":
        return "the config says so"
    if state.attempt.advancing:
        return "the last attempt was still making progress"
    if not settings.snapshots.enabled:
        return "snapshots are turned off"
    missing = f": {state.snapshots.missing}" if state.snapshots.missing else ""
    return "" if state.snapshots.first else f"there is no snapshot{missing}"


def _since_the_end(rows: Rows) -> tuple[int, list[str]]:
    """Return how many files were restored since the last attempt ended, and what could not be."""
    restored, left, own = 0, list[str](), False
    for _, event in rows:
        match event:
            case ev.AttemptEnded():
                restored, left = 0, []
            case ev.UndoStarted():
                own = event.scope == "attempt"
            case ev.UndoFinished() if own:
                restored += event.restored
                left += event.left
            case _:
                pass
    return restored, left


async def _restored(there: WorkspaceVisit, span: Span) -> tuple[str, list[str]]:
    """Restore what the attempts at the current subtask changed, and no one else has changed since.

    Return why nothing was to be restored, and the names that are left to others.
    """
    found, git = await there.planned(
        lambda store, rows: planning.planned(rows, listed(store.within(PLAN_S)), span)
    )
    if moved := _moved(found.git_before, git):
        return moved, []
    if found.plan.restore:
        # What is not done when the goal is stopped is completed at the next start.
        await to_its_end(there.carry_out(found), STOP_S)
    return "", [one.name for one in found.plan.entries if one.reason]


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
