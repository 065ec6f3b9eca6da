"""How the life of one worker ends: by the first reason that is found, or in order, with time for its agent to exit.

It also owns the tasks of the session, since one that fails ends the worker.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import structlog

from clew_daemon.processes import endings
from clew_daemon.processes.endings import Ended
from clew_shared.ledger import LedgerError
from clew_shared.wire import protocol

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from clew_daemon.session.desk import GoalDesk
    from clew_daemon.session.launcher import AgentProcess

log = structlog.get_logger()

FINISHED_GRACE_S = 5.0


class Lifetime:
    """From the start of a worker to its end; must be created inside the event loop."""

    def __init__(self, desk: GoalDesk) -> None:
        self._desk = desk
        self._tasks: list[asyncio.Task[Any]] = []
        self.process: AgentProcess | None = None
        """The agent, from its start on."""
        self.stop_reason = ""
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    @property
    def over(self) -> bool:
        """A reason to end has been found."""
        return self.ended.done()

    def end(self, ended: Ended) -> None:
        """End the worker for this reason, unless there is one already."""
        if not self.over:
            self.ended.set_result(ended)

    def stop(self, reason: str) -> None:
        """Ask the agent to stop; it gets `stop_grace_s`, then the worker is ended."""
        if self._desk.stopping or self.over:
            return
        self._desk.stopping = True  # at once: the agent's next message may be here already
        self.stop_reason = reason
        self.spawn(self._stop(reason))

    async def _stop(self, reason: str) -> None:
        grace_s = self._desk.settings.restart.stop_grace_s
        self.notify("stop", {"reason": reason, "grace_s": grace_s})
        if self.process:
            await asyncio.wait([self.process.cell.guard.ended], timeout=grace_s)
        self.end(Ended("stopped", reason))

    def leave_to_exit(self) -> None:
        """Wait a little for the agent to exit on its own: its goal is over."""
        self.spawn(self._leave_to_exit())

    async def _leave_to_exit(self) -> None:
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
        self._tasks = [task for task in self._tasks if not task.done()]
        task = asyncio.ensure_future(coroutine)
        task.add_done_callback(self._task_done)
        self._tasks.append(task)

    async def cancel(self) -> None:
        """Cancel all tasks but the current one, and wait for them."""
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, LedgerError):  # no bug: the daemon is about to stop
            self.end(endings.by_fault(error))
            return
        if isinstance(error, OSError) and endings.is_short(error):
            self.end(endings.by_fault(error))
            return
        log.error("daemon.bug", goal=self._desk.goal_id, error=repr(error), exc_info=error)
        self.end(endings.by_surprise(error))
