"""One epoch on record: the start of its worker, its end with what it left in flight, and how long it lived."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from clew_shared.record import events as ev
from clew_shared.text.redact import redact

if TYPE_CHECKING:
    from clew_daemon.processes.endings import Ended
    from clew_daemon.session.desk import GoalDesk
    from clew_daemon.session.launcher import AgentProcess

log = structlog.get_logger()


class EpochRecord:
    """Records one epoch; its worker's life counts from `begin` on."""

    def __init__(self, desk: GoalDesk) -> None:
        self._desk = desk
        self._began = time.monotonic()

    def begin(self) -> None:
        """Count the worker's life from now on; the goal's budget of time includes it."""
        self._began = time.monotonic()
        self._desk.core.lived_s = self.lived_s

    def lived_s(self) -> float:
        """Return how long the worker has lived, in seconds."""
        return time.monotonic() - self._began

    async def start(self, process: AgentProcess) -> None:
        """Record which process the worker is."""
        desk, state = self._desk, self._desk.core.state
        event = ev.WorkerStarted(
            at=time.time(),
            epoch=desk.epoch,
            agent=desk.agent_name,
            pid=process.cell.pid,
            created=process.created,
            probe=state.waits_for_time,
            span=desk.specs.trace.span,
            turns_needed=desk.parts.models.turns_needed(desk.traits.agent),
        )
        await desk.parts.goals.emit(desk.core, event)
        desk.parts.goals.judge_by(desk.core, desk.parts.settings_of(desk.goal_id))
        for warning in dict.fromkeys(w for cell in process.cells for w in cell.warnings):
            log.warning("sandbox.weaker", goal=desk.goal_id, epoch=desk.epoch, what=warning)

    async def close(self, ended: Ended) -> Ended:
        """Record the end of the epoch, and what it left in flight."""
        core, lived_s = self._desk.core, self.lived_s()
        messages, core.messages, core.lived_s = core.messages, 0, None
        crash = ended.kind == "crash"
        at = time.time()
        await self._desk.parts.goals.whole(self._desk.goal_id)
        with self._desk.recording():
            reason, said = ended.reason if crash else "stopped", redact(self._desk.work.said)
            core.interrupt(reason, at, counts=crash, said=said)
            if core.state.working:
                probe = core.state.waits_for_time and not crash
                counts = self._desk.traits.is_command and not probe  # others report their turns
                core.emit(
                    ev.WorkerExited(
                        at=at,
                        epoch=self._desk.epoch,
                        reason=ended.reason,
                        code=ended.code,
                        crash=crash,
                        active_s=round(lived_s, 3),
                        probe=probe,
                        messages=messages if counts else 0,
                    )
                )
        await self._desk.commit()
        return replace(ended, lived_s=lived_s)
