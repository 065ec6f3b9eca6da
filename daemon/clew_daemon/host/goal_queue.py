"""Goals that are due for something beside their run, such as a report: one after the other, in a task of its own."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from clew_daemon.host import background
from clew_shared.ledger import LedgerCorrupt, LedgerError, LedgerFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

RETRY_S = 5.0
STOP_S = 5.0


class GoalQueue:
    """Calls `work` with each goal that is due, and `log_failure` with a goal and the error of disk or ledger.

    The goal is due again RETRY_S later, or at the daemon's next start where its record is damaged.
    """

    def __init__(
        self,
        work: Callable[[str], Awaitable[None]],
        log_failure: Callable[[str, Exception], None],
    ) -> None:
        self._work = work
        self._log_failure = log_failure
        self._due: asyncio.Queue[str] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def due(self, goal: str) -> None:
        """Work on a goal as soon as possible; once more if it is due already."""
        self._due.put_nowait(goal)

    def start(self) -> None:
        """Start with what is due."""
        self._task = background.start(self._run())

    async def stop(self) -> None:
        """Finish what is due within STOP_S, then stop."""
        if self._task is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self._due.join()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            goal = await self._due.get()
            try:
                await self._work(goal)
            except LedgerFailed:
                return  # it is still due at the next start
            except (OSError, LedgerError) as error:
                self._log_failure(goal, error)
                if not isinstance(error, LedgerCorrupt):
                    asyncio.get_running_loop().call_later(RETRY_S, self.due, goal)
            finally:
                self._due.task_done()
