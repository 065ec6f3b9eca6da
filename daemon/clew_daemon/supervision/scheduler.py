"""Starts goals when they are due, by the pure rules of `schedule`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection

from clew_daemon.parts import DaemonParts
from clew_daemon.record.dependencies import KnownGoals
from clew_daemon.session.epoch import block_goal
from clew_daemon.supervision import schedule
from clew_daemon.supervision.restart import Waits
from clew_shared.core import questions

IDLE_S = 60.0
CLOCK_S = 1.0
"""How often goals are looked through while one waits for a moment of the wall clock."""

LONG_S = 0.01
REST, REST_S = 9, 1.0
"""A round that takes longer than LONG_S is followed by a rest of so many times as long, so that thousands of goals that
come at once are not gone through for each of them."""


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

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Start goals until the ledger fails."""
        while self._d.goals.ledger.failure is None:  # else the daemon is about to stop
            self._wake.clear()
            began, now = time.monotonic(), time.time()
            known = self._known()
            most, expired = self._d.settings.daemon.max_workers, self._waits.expired()
            for goal in schedule.due(known, self._busy(), now, most, expired):
                self._start(goal)
            await self._block_dependents(known)
            if (took_s := time.monotonic() - began) > LONG_S:  # with thousands of goals
                await asyncio.sleep(min(REST * took_s, REST_S))
            moment = schedule.next_moment(known.states.values(), now)
            # by the wall clock, which may be set, and goes on while the machine sleeps
            moment_s = None if moment is None else min(moment - now, CLOCK_S)
            with contextlib.suppress(TimeoutError):
                until = [s for s in (moment_s, self._waits.next_s()) if s]
                async with asyncio.timeout(min([IDLE_S, *until])):
                    await self._wake.wait()

    def _known(self) -> KnownGoals:
        return KnownGoals(self._d.goals.states(), self._d.goals.gone)

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
