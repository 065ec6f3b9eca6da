"""What a start does about the goals of the daemon before it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus

if TYPE_CHECKING:
    from clew_daemon.parts import DaemonParts
    from clew_daemon.supervision.reports import ReportWriter
    from clew_daemon.supervision.waits import Waits
    from clew_shared.core.core import Core


async def recover(daemon: DaemonParts, waits: Waits, reports: ReportWriter) -> None:
    """Record the ends of an earlier daemon's workers, and that the effects of their actions are unknown."""
    for goal, core in daemon.goals.cores.items():
        at = time.time()
        with daemon.goals.entering(core):
            core.interrupt("daemon_died", at, counts=False)
            if core.state.working:
                core.emit(ev.WorkerExited(at=at, epoch=core.state.epoch, reason="daemon_died"))
        await daemon.goals.commit(core)
        _resume_wait(core, waits, at)
        unreported = core.state.rested_seq > core.state.reported_seq
        if unreported:
            reports.due(goal)
        at_work = core.state.goal.status == GoalStatus.IN_PROGRESS  # its run publishes it
        if core.state.epoch and not at_work and (unreported or not core.state.ended):
            daemon.publisher.open(goal)


def _resume_wait(core: Core, waits: Waits, now: float) -> None:
    """Continue a wait that an earlier daemon began, for no longer than its whole duration."""
    state = core.state
    if state.goal.status == GoalStatus.WAITING and state.wait_until is not None:
        left_s = min(state.wait_until - now, state.wait_until - state.updated_at)
        waits.begin(state.goal_id, left_s)
