"""The life of one worker: its signs of life, and its end by the first reason, or in order, with time to exit."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import structlog

from clew_daemon.host.tasks import within
from clew_daemon.processes import endings
from clew_daemon.processes.endings import Ended
from clew_daemon.session.epoch import Epoch, block_missing
from clew_shared.ledger.errors import LedgerError
from clew_shared.wire import protocol

log = structlog.get_logger()

FINISHED_GRACE_S = 5.0
WATCH_EVERY_S = 0.5
WORKSPACE_EVERY_S = 1.0
# a coding agent may go this many times `stall_timeout_s` without a step: calls to its model are not seen
CLI_PATIENCE = 6


class Lifetime:
    """From the start of a worker to its end, with its tasks: one that fails ends the worker.

    It is `quiet` until the agent is listened to, and once that has hung up and all that it sent is answered. The clocks
    are monotonic, in seconds.
    """

    def __init__(self, epoch: Epoch) -> None:
        self._epoch = epoch
        self._tasks: set[asyncio.Task[Any]] = set()
        self.stop_reason = ""
        self.quiet = asyncio.Event()
        self.quiet.set()
        self._patient = False
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._heard_at = self._acted_at = time.monotonic()
        self._busy = False

    @property
    def over(self) -> bool:
        return self.ended.done()

    def end(self, ended: Ended) -> None:
        """End the worker for this reason, unless there is one already; one that is being stopped does not crash."""
        if not self.over:
            is_stopped = self._epoch.stopping and ended.kind == "crash"
            self.ended.set_result(Ended("stopped", self.stop_reason) if is_stopped else ended)

    def stop(self, reason: str, *, after_action: bool = False, at_once: bool = False) -> None:
        """Ask the agent to stop; it, and the action that is carried out, get `stop_grace_s`, then the worker is ended.

        `after_action`: first the action gets all the time that it may take. `at_once`: nothing gets any time.
        """
        again = after_action or not (self._patient or at_once)
        if self.over or (self._epoch.stopping and again):
            return
        self._patient = after_action
        self._epoch.stopping = True  # at once: the agent's next message may be here already
        self.stop_reason = reason
        self.spawn(self._stop(reason, after_action=after_action, at_once=at_once))

    async def _stop(self, reason: str, *, after_action: bool, at_once: bool) -> None:
        epoch = self._epoch
        grace_s = 0.0 if at_once else epoch.settings.restart.stop_grace_s
        # an executor ends an action that takes too long, and nobody that of an agent with its own tools
        action_s = epoch.action_limit()[0] if epoch.own_tools else None
        waits = after_action and not epoch.idle.is_set()
        told_s = max(grace_s, action_s or 0.0) if waits else grace_s
        self.notify("stop", {"reason": reason, "grace_s": told_s})
        if waits:
            await within(action_s, epoch.idle.wait())
        await within(grace_s, self.gone())
        self.end(Ended("stopped", reason))

    async def gone(self) -> None:
        """Wait until the agent has exited, and nothing that it began is carried out."""
        if process := self._epoch.process:
            await asyncio.shield(process.cell.guard.ended)
            ends = [asyncio.ensure_future(e.wait()) for e in (self._epoch.idle, self.quiet)]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in ends:
                    one.cancel()

    async def leave_to_exit(self) -> None:
        """Wait a little for the agent to exit on its own: its goal is over."""
        if process := self._epoch.process:
            await asyncio.wait([process.cell.guard.ended], timeout=FINISHED_GRACE_S)
        self.end(Ended("finished", "finished"))

    def notify(self, method: str, params: dict[str, Any]) -> None:
        if process := self._epoch.process:
            self.spawn(process.channel.send(protocol.notification(method, params)))

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a part of the session; if it fails, the worker ends: better a restart than a worker without its watch."""
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    async def cancel(self) -> None:
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        # no bug where the daemon is about to stop, or resources have run out
        is_short = isinstance(error, OSError) and endings.is_short(error)
        if is_short or isinstance(error, LedgerError):
            self.end(endings.by_fault(error))
            return
        log.error("daemon.bug", goal=self._epoch.goal_id, error=repr(error), exc_info=error)
        self.end(endings.by_surprise(error))

    # -- signs of life -------------------------------------------------------------------------------

    def heard(self, *, busy: bool = False) -> None:
        """Note a sign of life; while its message is being answered (`busy`), an agent need give none."""
        self._heard_at, self._busy = time.monotonic(), busy

    def acted(self) -> None:
        self._acted_at = time.monotonic()

    async def watch(self) -> None:
        """Look until something is wrong, and end the worker for it; while the daemon is starved no time counts."""
        epoch = self._epoch
        while True:
            every_s = min(epoch.settings.heartbeat.interval_s, WATCH_EVERY_S)
            due = time.monotonic() + every_s
            await asyncio.sleep(every_s)
            now = time.monotonic()
            if (late_s := now - due) > every_s:
                self._acted_at = min(now, self._acted_at + late_s)
                self._heard_at = min(now, self._heard_at + late_s)
            found = None if epoch.stopping else self.silent() or self.stalled()
            found = found or await self._check_memory()
            if found:
                self.end(found)
                return
            if not epoch.stopping and (spent := await epoch.hold_to_limits()):
                self.stop(spent)

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

    async def watch_workspace(self) -> None:
        """End the worker where something else is in the place of its folder, and ask a person; a look may hang."""
        epoch = self._epoch
        while True:
            await asyncio.sleep(WORKSPACE_EVERY_S)
            missing = None if epoch.stopping else await epoch.missing()
            if missing and not (missing.gone or epoch.stopping):
                await block_missing(epoch.parts.goals, epoch.core, missing)
                self.end(Ended("stopped", missing.reason))
                return

    async def _check_memory(self) -> Ended | None:
        """Measure the worker's memory where the kernel does not hold it to its limit."""
        executors, limit_mb = self._epoch.executors, self._epoch.settings.limits.memory_mb
        if executors.limited():
            return None
        cells = [cell for cell in (*self._epoch.cells, executors.cell) if cell]
        used_mb = await asyncio.to_thread(executors.launcher.memory_mb, cells)
        if used_mb <= limit_mb:
            return None
        return Ended("crash", "memory", f"{used_mb:.0f} MB used, {limit_mb} MB allowed")
