"""Watches one live worker: whether it is heard from, gets on, and stays within its memory and its time.

It finds out; ending the worker is its session's.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from clew_daemon.host import threads
from clew_daemon.processes import vitals
from clew_daemon.processes.endings import Ended
from clew_shared.config.settings import CommandAgentSettings

if TYPE_CHECKING:
    from clew_daemon.processes.workspace_guard import Lost
    from clew_daemon.session.session import Session

MEMORY_EVERY_S = 0.5
GROUND_EVERY_S = 1.0
_SCALES = ThreadPoolExecutor(1, "clew-scales")
"""Weighs all workers, one after the other: several threads would wait for each other at every small file."""


def begin() -> None:
    """Start the thread that weighs, while there is one to be had; raises ThreadsError."""
    threads.start(_SCALES, 1)


class Vigil:
    """What is looked at now and then while a session lasts."""

    def __init__(self, session: Session) -> None:
        self._s = session
        self._weighed_in = -1.0
        self._looked_at = 0.0
        self._look: asyncio.Future[Lost | None] | None = None

    async def keep(self) -> Ended:
        """Look until something is wrong; says what.

        At full turns of the clock, so that all workers are looked at when the daemon has woken for one.
        """
        while True:
            every_s = min(self._s.settings.heartbeat.interval_s, MEMORY_EVERY_S)
            now = time.monotonic()
            due = now + 1.5 * every_s
            due -= due % every_s  # half a turn away at least
            await asyncio.sleep(due - now)
            if (late_s := time.monotonic() - due) > every_s:
                self._forgive(late_s)
            if self._s.stopping:
                continue
            if found := self.silent() or self.stalled() or await self._weigh():
                return found
            if found := await self._off_ground():
                return found
            await self._s.spend()

    def _forgive(self, late_s: float) -> None:
        """Hold nothing against the worker for a time in which the daemon was stopped, or starved, itself.

        What the worker said meanwhile still waits to be read.
        """
        now = time.monotonic()
        self._s.acted_at = min(now, self._s.acted_at + late_s)
        if channel := self._s.channel:
            channel.heard_at = min(now, channel.heard_at + late_s)

    def silent(self) -> Ended | None:
        """Hung: not heard from, while it does not wait for our answer."""
        settings = self._s.settings
        if self._s.busy or self._s.channel is None:
            return None
        patience_s = settings.heartbeat.timeout_s
        if isinstance(self._s.agent, CommandAgentSettings) and self._s.core.state.in_flight:
            patience_s = max(patience_s, settings.limits.action_timeout_s)
        quiet_s = time.monotonic() - self._s.channel.heard_at
        if quiet_s <= patience_s:
            return None
        return Ended("crash", "hung", f"no sign of life for {quiet_s:.1f} s")

    def stalled(self) -> Ended | None:
        """Stalled: a built-in agent that beats but proposes nothing, and no LLM call is open."""
        if isinstance(self._s.agent, CommandAgentSettings) or self._s.busy or self._s.llm_open:
            return None
        still_s = time.monotonic() - self._s.acted_at
        if still_s <= self._s.settings.heartbeat.stall_timeout_s:
            return None
        return Ended("crash", "stalled", f"no proposal for {still_s:.0f} s")

    async def _off_ground(self) -> Ended | None:
        """Find out whether something else stands where the worker's folder was; then a person is asked.

        Where nothing is, its next action will say so. What a look has found is taken up a turn later: a file system
        that does not answer keeps only that look.
        """
        if self._look is None:
            if time.monotonic() - self._looked_at >= GROUND_EVERY_S:
                self._looked_at = time.monotonic()
                self._look = asyncio.ensure_future(self._s.ground_lost())
            return None
        if not self._look.done():
            return None
        lost, self._look = self._look.result(), None
        if lost is None or lost.gone:
            return None
        await self._s.hand_over_lost(lost)
        return Ended("stopped", lost.reason)

    async def _weigh(self) -> Ended | None:
        turn = time.monotonic() // MEMORY_EVERY_S
        if turn == self._weighed_in or self._s.hands.limited():
            return None
        self._weighed_in = turn
        return await asyncio.get_running_loop().run_in_executor(_SCALES, self.over_memory)

    def over_memory(self) -> Ended | None:
        """Over its memory; looked at where the kernel does not see to that."""
        guards = [cell.guard.pid for cell in (self._s.cell, self._s.hands.cell) if cell]
        used_mb = vitals.memory_mb(guards)
        limit_mb = self._s.settings.limits.memory_mb
        if used_mb <= limit_mb:
            return None
        return Ended("crash", "memory", f"{used_mb:.0f} MB used, {limit_mb} MB allowed")
