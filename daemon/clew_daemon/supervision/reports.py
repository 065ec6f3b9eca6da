"""Writes the report of each goal that ended or was blocked, once for each such rest."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from clew_daemon.host.git import program
from clew_daemon.host.goal_queue import RETRY_S, GoalQueue
from clew_daemon.parts import DaemonParts
from clew_daemon.publish import report
from clew_daemon.record import pages
from clew_daemon.record.changed_files import changed_files
from clew_daemon.record.store import Readable
from clew_daemon.supervision.scratch import clear
from clew_shared.ledger import LedgerCorrupt
from clew_shared.record import events as ev
from clew_shared.record.state import State
from clew_shared.snapshots.comparison import ChangedFile
from clew_shared.snapshots.store import StoreError, at
from clew_shared.text.plain import plain

log = structlog.get_logger()

WAIT_S = 30.0
FILES_S = 20.0
"""How long a report waits for the files that the goal changed."""


class ReportWriter:
    """Writes one report after the other; `run_of` returns the task that runs a goal, None for none.

    The folders of a goal that is `in_use`, by an undo as well, are not cleared.
    """

    def __init__(
        self,
        daemon: DaemonParts,
        run_of: Callable[[str], asyncio.Task[None] | None],
        in_use: Callable[[str], bool],
    ) -> None:
        self._d = daemon
        self._run_of = run_of
        self._in_use = in_use
        self._queue = GoalQueue(self._report, self._log_failure)
        self._unwritten: set[str] = set()
        self._comparison: asyncio.Task[list[ChangedFile]] | None = None

    async def start(self) -> None:
        """Start writing what is due."""
        self._queue.start()

    async def stop(self) -> None:
        """Finish what is due, within the time that a stop has, then stop."""
        await self._queue.stop()

    def due(self, goal: str) -> None:
        """Write a goal's report as soon as possible."""
        self._queue.due(goal)

    def _log_failure(self, goal: str, error: Exception) -> None:
        """Log a report that cannot be written: once, where the disk may have room later."""
        if isinstance(error, LedgerCorrupt):
            log.error("report.unwritable", goal=goal, error=str(error))
        elif goal not in self._unwritten:
            self._unwritten.add(goal)
            log.warning("report.unwritable", goal=goal, error=plain(error), again_s=RETRY_S)

    async def _report(self, goal: str) -> None:
        await self._write(goal)
        self._unwritten.discard(goal)

    async def _write(self, goal: str) -> None:
        if run := self._run_of(goal):
            await asyncio.wait([run], timeout=WAIT_S)  # the report includes the worker's end
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                await self._d.publisher.settle(goal)  # a reported goal is published, too
        core = self._d.goals.cores.get(goal)
        if core is None or core.state.rested_seq <= core.state.reported_seq:
            return  # purged meanwhile, or an earlier report has all of it
        rested = core.state.rested_seq
        actions, loops = await asyncio.to_thread(_last_pages, self._d.goals.ledger, goal)
        playbook, ids = self._d.playbook.current, core.state.strategies
        shown = [f"[{i}] {bullet.content}" for i in ids if (bullet := playbook.get_bullet(i))]
        files = await self._changed_files(core.state)
        text = report.render(core.state, actions, loops, shown, files)
        await asyncio.to_thread(report.write, self._d.places.outbox, core.state, text)
        if core.state.rested_seq != rested:
            return  # it has come to rest again: that report is due, and `Reported` would cover it unwritten
        await self._d.goals.emit(core, ev.Reported(at=time.time()))
        if core.state.ended and not self._in_use(goal):
            await clear(self._d.places, goal)

    async def _compare(self, work: Callable[[], list[ChangedFile]]) -> list[ChangedFile]:
        """Run a comparison in a thread; its git is no leftover of a cell."""
        with self._d.children.starting_own():
            return await asyncio.to_thread(work)

    async def _changed_files(self, state: State) -> list[ChangedFile] | None:
        """Return the files that a goal changed; None where that cannot be found out, or not soon."""
        if not state.snapshots.first:
            return None
        goals, goal = self._d.goals, state.goal_id
        folder, env = self._d.places.snapshots / goal, self._d.keys.env
        try:
            async with asyncio.timeout(FILES_S):
                if self._comparison is not None:  # one that took too long still uses its thread
                    await asyncio.wait([self._comparison])
                work = partial(_files_in, goals.ledger, goal, folder, env)
                self._comparison = asyncio.ensure_future(self._compare(work))
                self._comparison.add_done_callback(_see_result)
                return await asyncio.shield(self._comparison)
        except (StoreError, OSError, TimeoutError) as error:
            log.warning("report.without_files", goal=goal, reason=plain(error))
            return None


def _see_result(task: asyncio.Task[list[ChangedFile]]) -> None:
    """Take the exception of a comparison that no report waits for any more."""
    if not task.cancelled():
        task.exception()


def _files_in(
    ledger: Readable, goal: str, folder: Path, env: Mapping[str, str]
) -> list[ChangedFile]:
    return changed_files(ledger, goal, at(folder, program(env)))


def _last_pages(ledger: Readable, goal: str) -> tuple[list[Any], list[Any]]:
    """Return a goal's last actions and loops, as JSON, for the report to show."""
    actions, _ = pages.actions(ledger, goal, report.TRIED_MAX, outputs=False)
    loops, _ = pages.loops(ledger, goal, report.TRIED_MAX)
    return actions, loops
