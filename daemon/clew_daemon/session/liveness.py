"""Watches one live worker: whether its agent shows life and gets on, and keeps within its memory and its time.

It owns the clocks that this is judged by.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from clew_daemon.host import tasks
from clew_daemon.processes.endings import Ended
from clew_daemon.processes.workspace_guard import Missing
from clew_daemon.session.epoch import Epoch
from clew_daemon.session.launcher import AgentProcess, Launcher
from clew_daemon.session.lifetime import Lifetime

MEMORY_EVERY_S = 0.5
WORKSPACE_EVERY_S = 1.0
CLI_PATIENCE = 6
"""How many times `stall_timeout_s` a coding agent may go without a step: its calls of its model are not seen."""

_memory_pool = ThreadPoolExecutor(1, "clew-memory")
"""Measures all workers, one after the other: several threads would wait for each other at every small file."""


def start_memory_thread() -> None:
    """Start the thread that measures memory, while there is one to be had; raises ThreadsError."""
    tasks.start_threads(_memory_pool, 1)


class Liveness:
    """The clocks of one worker; all are monotonic, in seconds."""

    def __init__(self, epoch: Epoch, launcher: Launcher, lifetime: Lifetime) -> None:
        self._epoch = epoch
        self._launcher = launcher
        self._lifetime = lifetime
        self._heard_at = self._acted_at = time.monotonic()
        self._busy = False
        self._measured_in = -1.0
        self._looked_at = 0.0
        self._look: asyncio.Future[Missing | None] | None = None

    def heard(self) -> None:
        """Note that a message came."""
        self._heard_at = time.monotonic()

    def acted(self) -> None:
        """Note that the agent gets on."""
        self._acted_at = time.monotonic()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Bracket the answering of a message: the agent's wait for it counts as life."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            self.heard()

    async def watch(self, agent: AgentProcess) -> None:
        """Look until something is wrong, and end the worker for it.

        At full turns of the clock, so that all workers are looked at when the daemon has woken for one. A time in
        which the daemon was stopped, or starved, is not held against the worker: what it sent waits to be read.
        """
        epoch = self._epoch
        while True:
            every_s = min(epoch.settings.heartbeat.interval_s, MEMORY_EVERY_S)
            now = time.monotonic()
            due = now + 1.5 * every_s
            due -= due % every_s  # half a turn away at least
            await asyncio.sleep(due - now)
            now = time.monotonic()
            if (late_s := now - due) > every_s:
                self._acted_at = min(now, self._acted_at + late_s)
                self._heard_at = min(now, self._heard_at + late_s)
            found = None if epoch.stopping else self.silent() or self.stalled()
            found = found or await self._check_memory(agent)
            if not (found or epoch.stopping):
                found = await self._check_workspace()
            if found:
                self._lifetime.end(found)
                return
            if not epoch.stopping and (spent := await epoch.hold_to_limits()):
                self._lifetime.stop(spent)

    def silent(self) -> Ended | None:
        """Return that the agent hangs where nothing came from it, while it did not wait for an answer."""
        epoch = self._epoch
        patience_s = epoch.settings.heartbeat.timeout_s
        if epoch.kind == "command" and epoch.core.state.in_flight:
            patience_s = max(patience_s, epoch.action_limit()[0])
        quiet_s = time.monotonic() - self._heard_at
        if self._busy or quiet_s <= patience_s:
            return None
        return Ended("crash", "hung", f"no sign of life for {quiet_s:.1f} s")

    def stalled(self) -> Ended | None:
        """Return that an agent is stalled: it beats but proposes nothing, and no LLM call is open."""
        epoch = self._epoch
        if epoch.kind == "command" or self._busy or epoch.work.llm_since is not None:
            return None
        patience_s = epoch.settings.heartbeat.stall_timeout_s
        patience_s *= CLI_PATIENCE if epoch.kind == "cli" else 1
        still_s = time.monotonic() - self._acted_at
        if still_s <= patience_s:
            return None
        return Ended("crash", "stalled", f"no proposal for {still_s:.0f} s")

    async def _check_workspace(self) -> Ended | None:
        """Find out whether something else is in the place of the worker's folder; then a person is asked.

        If nothing is there, its next action will say so. What a look has found is taken up a turn later: a file
        system that does not answer holds up only that look.
        """
        if self._look is None:
            if time.monotonic() - self._looked_at >= WORKSPACE_EVERY_S:
                self._looked_at = time.monotonic()
                self._look = asyncio.ensure_future(self._epoch.missing())
            return None
        if not self._look.done():
            return None
        missing, self._look = self._look.result(), None
        if missing is None or missing.gone:
            return None
        await self._epoch.hand_over_missing(missing)
        return Ended("stopped", missing.reason)

    async def _check_memory(self, agent: AgentProcess) -> Ended | None:
        """Measure the worker's memory where the kernel does not hold it to its limit."""
        executors, turn = self._epoch.executors, time.monotonic() // MEMORY_EVERY_S
        if turn == self._measured_in or executors.limited():
            return None
        self._measured_in = turn
        cells = [cell for cell in (*agent.cells, executors.cell) if cell]
        loop = asyncio.get_running_loop()
        used_mb = await loop.run_in_executor(_memory_pool, self._launcher.memory_mb, cells)
        limit_mb = self._epoch.settings.limits.memory_mb
        if used_mb <= limit_mb:
            return None
        return Ended("crash", "memory", f"{used_mb:.0f} MB used, {limit_mb} MB allowed")
