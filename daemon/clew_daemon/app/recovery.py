"""What a start does about the daemon before it: an incomplete record, a copied home, workers that still live."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import structlog

from clew_daemon.parts import DaemonParts
from clew_daemon.record import home
from clew_daemon.record.goals import GoalStore
from clew_daemon.record.lost_record import accept as accept_lacking
from clew_daemon.record.lost_record import lacking, lost
from clew_daemon.undo.undo import Undo, VisitFailed
from clew_shared.record import events as ev
from clew_shared.record.daemon_events import HomeKnown
from clew_shared.snapshots.store import StoreError

log = structlog.get_logger()

UNDO_S = 60.0
"""How long a start waits for one undo to be completed."""


def refuse_incomplete(ledger: Path, state: Path) -> None:
    """Raise where a ledger was lost, or lacks events that were recorded; create no new one in its place."""
    if gone := lost(ledger, state):
        raise gone
    missing = lacking(ledger, state)
    if missing and not missing.is_copied:
        raise missing.error(ledger)
    if missing:  # the original has the rest, and no goal continues here before a person resumes it
        aside = accept_lacking(ledger, state, missing)
        log.warning(
            "ledger.behind", lacks=list(missing.faults), aside=[str(p) for p in aside.values()]
        )


async def block_in_other_home(goals: GoalStore, before: HomeKnown | None, now: HomeKnown) -> None:
    """Block every unfinished goal where the home was copied or moved: a person decides whether it continues."""
    if before is None or not home.is_other(before, now):
        return
    log.warning("home.other", before=before.path, host=before.host, now=now.path)
    for core in goals.cores.values():
        if core.state.goal.status in home.UNFINISHED:
            asked = home.copied(before, core.state)
            blocked = ev.GoalBlocked(at=time.time(), reason=asked.reason, question=asked.text)
            await goals.emit(core, blocked)


async def complete_undos(
    daemon: DaemonParts, undo: Undo, starting: Callable[[str, float], None]
) -> None:
    """Complete each undo that the last daemon did not, before its goal does anything else.

    `starting` is told what the start waits for, and for how many seconds at most.
    """
    for goal, core in list(daemon.goals.cores.items()):
        if not core.state.snapshots.undoing:
            continue
        starting(f"starting: completing the undo of {goal}", 2 * UNDO_S)
        try:
            async with asyncio.timeout(UNDO_S):
                await undo.complete(await daemon.goals.whole(goal))
        except (VisitFailed, StoreError, TimeoutError) as error:  # the goal waits for a person
            log.error("undo.failed", goal=goal, reason=str(error) or "it took too long")  # noqa: TRY400 - a reason


def end_leftovers(goals: GoalStore, *, ours: bool) -> None:
    """Kill workers of this home's last daemon that still live, recognised by pid and creation time.

    `ours`: pids still mean what they meant to that daemon; if not, nothing is killed.
    """
    for state in goals.states().values() if ours else ():
        if not (state.working and state.pid):
            continue
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(state.pid)
            if abs(process.create_time() - state.pid_created) < 0.01:
                log.warning("worker.leftover", goal=state.goal_id, pid=state.pid)
                for one in [*process.children(recursive=True), process]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        one.kill()
