"""How the life of one worker ends: by the first reason that is found, or in order, with time for its agent to exit.

It also owns the tasks of the session, since one that fails ends the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

import structlog

from clew_daemon.processes import endings
from clew_daemon.processes.endings import Ended
from clew_daemon.session.epoch import Epoch
from clew_daemon.session.launcher import AgentProcess
from clew_shared.ledger import LedgerError
from clew_shared.wire import protocol

log = structlog.get_logger()

FINISHED_GRACE_S = 5.0


class Lifetime:
    """From the start of a worker to its end; must be created inside the event loop.

    `process` is the agent, from its start on. Once it has hung up, and all that it sent is answered, it is `quiet`.
    """

    def __init__(self, epoch: Epoch) -> None:
        self._epoch = epoch
        self._tasks: set[asyncio.Task[Any]] = set()
        self.process: AgentProcess | None = None
        self.stop_reason = ""
        self.quiet = asyncio.Event()
        self._patient = False
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    @property
    def over(self) -> bool:
        """A reason to end has been found."""
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
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(action_s):
                    await epoch.idle.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self.gone()
        self.end(Ended("stopped", reason))

    async def gone(self) -> None:
        """Wait until the agent has exited, and nothing that it began is carried out."""
        if self.process:
            await asyncio.shield(self.process.cell.guard.ended)
            ends = [asyncio.ensure_future(e.wait()) for e in (self._epoch.idle, self.quiet)]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in ends:
                    one.cancel()

    async def leave_to_exit(self) -> None:
        """Wait a little for the agent to exit on its own: its goal is over."""
        assert self.process is not None  # noqa: S101 - it has sent a message
        await asyncio.wait([self.process.cell.guard.ended], timeout=FINISHED_GRACE_S)
        self.end(Ended("finished", "finished"))

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send the agent a notification, if there is one."""
        if self.process:
            self.spawn(self.process.channel.send(protocol.notification(method, params)))

    # -- tasks -----------------------------------------------------------------------------------------

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run a part of the session; if it fails, the worker ends: better a restart than a worker without its watch."""
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    async def cancel(self) -> None:
        """Cancel all tasks but the current one, and wait for them."""
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        # no bug where the daemon is about to stop, or resources have run out
        if isinstance(error, LedgerError) or (
            isinstance(error, OSError) and endings.is_short(error)
        ):
            self.end(endings.by_fault(error))
            return
        log.error("daemon.bug", goal=self._epoch.goal_id, error=repr(error), exc_info=error)
        self.end(endings.by_surprise(error))
