"""Writes the report of each goal that ended or was blocked, once for each such rest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from clew_daemon.host.tasks import RETRY_S, GoalQueue, within
from clew_daemon.parts import DaemonParts
from clew_daemon.publish import report
from clew_daemon.record import pages
from clew_daemon.record.changed_files import changed_files
from clew_daemon.session.snapshots import from_store
from clew_daemon.supervision.retention import clear
from clew_shared.ledger.errors import LedgerCorrupt
from clew_shared.record import events as ev
from clew_shared.text.plain import plain

log = structlog.get_logger()

WAIT_S = 30.0
FILES_S = 20.0  # How long a report waits for the files that the goal changed


class ReportWriter(GoalQueue):
    """Writes one report after the other, once a goal has `finished`; folders of a goal `in_use` are not cleared."""

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
        await within(WAIT_S, self._d.publisher.settle(goal))  # a reported goal is published, too
        core = self._d.goals.cores.get(goal)
        if core is None or core.state.rested_seq <= core.state.reported_seq:
            return  # purged meanwhile, or an earlier report has all of it
        rested, ledger = core.state.rested_seq, self._d.goals.ledger
        actions, _ = await asyncio.to_thread(
            pages.actions, ledger, goal, report.TRIED_MAX, outputs=False
        )
        loops, _ = await asyncio.to_thread(pages.loops, ledger, goal, report.TRIED_MAX)
        files = None
        if core.state.snapshots.first:
            read = partial(changed_files, ledger, goal)
            files = await from_store(self._d, goal, FILES_S, read, "report.without_files")
        text = report.render(core.state, actions, loops, files)
        await asyncio.to_thread(report.write, self._d.places.outbox, core.state, text)
        self._unwritten.discard(goal)
        if core.state.rested_seq != rested:
            return  # it has come to rest again: that report is due, and `Reported` would cover it unwritten
        await self._d.goals.emit(core, ev.Reported(at=time.time()))
        if core.state.ended and not self._in_use(goal):
            await clear(self._d.places, goal)
