"""Starts goals when they are due, by the pure rules of `schedule`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import structlog

from clew_daemon.record.dependencies import KnownGoals
from clew_daemon.session.blocking import block_goal
from clew_daemon.supervision import schedule
from clew_shared.core import questions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from clew_daemon.parts import DaemonParts
    from clew_daemon.supervision.waits import Waits

log = structlog.get_logger()

IDLE_S = 60.0
"""The longest delay of a goal that became due while the machine slept, or when the wall clock was set."""


class Scheduler:
    """Calls `start` with each goal that is due; `busy` returns the goals that are at work, or held."""

    def __init__(
        self,
        daemon: DaemonParts,
        waits: Waits,
        busy: Callable[[], Collection[str]],
        start: Callable[[str], None],
    ) -> None:
        self._d = daemon
        self._waits = waits
        self._busy = busy
        self._start = start
        self._wake = asyncio.Event()
        self._awaited: dict[str, str] = {}

    def wake(self) -> None:
        """Check again whether a goal is due."""
        self._wake.set()

    async def run(self) -> None:
        """Start goals until the ledger fails."""
        while self._d.goals.ledger.failure is None:  # else the daemon is about to stop
            self._wake.clear()
            known, now = self._known(), time.time()
            most, expired = self._d.settings.daemon.max_workers, self._waits.expired()
            for goal in schedule.due(known, self._busy(), now, most, expired):
                self._start(goal)
            self._log_awaited(known)
            await self._block_dependents(known)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s(known, now)):
                    await self._wake.wait()

    def _pause_s(self, known: KnownGoals, now: float) -> float:
        """Return the seconds until time alone may make a goal due."""
        moment = schedule.next_moment(known.states.values(), now)
        pauses = (moment and moment - now, self._waits.next_s())
        return max(0.0, min([IDLE_S, *(s for s in pauses if s)]))

    def _known(self) -> KnownGoals:
        return KnownGoals(self._d.goals.states(), self._d.goals.gone)

    def _log_awaited(self, known: KnownGoals) -> None:
        """Log what queued goals wait for among other goals, whenever that changes."""
        before, self._awaited = self._awaited, schedule.awaited(known)
        for goal, reason in self._awaited.items():
            if before.get(goal) != reason:
                log.info("goal.waiting", goal=goal, reason=reason)

    async def _block_dependents(self, known: KnownGoals) -> None:
        """Block goals whose dependency ended without being completed: a person decides about them."""
        for goal, state in known.states.items():
            if goal not in self._d.goals.cores:
                continue  # purged while another one was being blocked
            if lost := schedule.lost_dependency(state, known):
                asked = questions.lost_dependency(
                    state, lost.goal, lost.status, known=lost.goal in known.states
                )
                await block_goal(self._d.goals, self._d.goals.cores[goal], asked)
                known = self._known()  # goals may have come and gone meanwhile
