"""Writes the report of each goal that ended or was blocked, once for each such rest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from clew_daemon.host.git import program
from clew_daemon.host.tasks import RETRY_S, GoalQueue
from clew_daemon.parts import DaemonParts
from clew_daemon.publish import report
from clew_daemon.record import pages
from clew_daemon.record.changed_files import changed_files
from clew_daemon.supervision.retention import clear
from clew_shared.ledger import LedgerCorrupt
from clew_shared.record import events as ev
from clew_shared.record.state import State
from clew_shared.snapshots.comparison import ChangedFile
from clew_shared.snapshots.store import StoreError, at
from clew_shared.text.plain import plain

log = structlog.get_logger()

WAIT_S = 30.0
FILES_S = 20.0  # How long a report waits for the files that the goal changed


class ReportWriter(GoalQueue):
    """Writes one report after the other; `finished` waits until a goal's worker has ended, at most so long.

    The folders of a goal that is `in_use`, by an undo as well, are not cleared.
    """

    def __init__(
        self,
        daemon: DaemonParts,
        finished: Callable[[str, float], Awaitable[None]],
        in_use: Callable[[str], bool],
    ) -> None:
        super().__init__(self._report, self._log_unwritten)
        self._d = daemon
        self._finished = finished
        self._in_use = in_use
        self._unwritten: set[str] = set()

    def _log_unwritten(self, goal: str, error: Exception) -> None:
        if isinstance(error, LedgerCorrupt):
            log.error("report.unwritable", goal=goal, error=str(error))
        elif goal not in self._unwritten:
            self._unwritten.add(goal)
            log.warning("report.unwritable", goal=goal, error=plain(error), again_s=RETRY_S)

    async def _report(self, goal: str) -> None:
        await self._finished(goal, WAIT_S)  # the report includes the worker's end
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                await self._d.publisher.settle(goal)  # a reported goal is published, too
        core = self._d.goals.cores.get(goal)
        if core is None or core.state.rested_seq <= core.state.reported_seq:
            return  # purged meanwhile, or an earlier report has all of it
        rested, ledger = core.state.rested_seq, self._d.goals.ledger
        actions, _ = await asyncio.to_thread(
            pages.actions, ledger, goal, report.TRIED_MAX, outputs=False
        )
        loops, _ = await asyncio.to_thread(pages.loops, ledger, goal, report.TRIED_MAX)
        files = await self._changed_files(core.state)
        text = report.render(core.state, actions, loops, files)
        await asyncio.to_thread(report.write, self._d.places.outbox, core.state, text)
        self._unwritten.discard(goal)
        if core.state.rested_seq != rested:
            return  # it has come to rest again: that report is due, and `Reported` would cover it unwritten
        await self._d.goals.emit(core, ev.Reported(at=time.time()))
        if core.state.ended and not self._in_use(goal):
            await clear(self._d.places, goal)

    async def _changed_files(self, state: State) -> list[ChangedFile] | None:
        """Return the files that a goal changed; None where that cannot be found out, or not soon."""
        if not state.snapshots.first:
            return None
        try:
            with self._d.children.starting_own():  # its git is no leftover of a cell
                async with asyncio.timeout(FILES_S):
                    return await asyncio.to_thread(self._files_in, state.goal_id)
        except (StoreError, OSError, TimeoutError) as error:
            log.warning("report.without_files", goal=state.goal_id, reason=plain(error))
            return None

    def _files_in(self, goal: str) -> list[ChangedFile]:
        store = at(self._d.places.snapshots / goal, program(self._d.keys.env))
        return changed_files(self._d.goals.ledger, goal, store)
