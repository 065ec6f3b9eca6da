"""Reviews each goal that ended or was blocked: credits its strategies and learns lessons, once for each outcome.

`Reviewed` is recorded in the same transaction as the changes to the playbook, so that after a crash at any moment a
review is repeated as a whole or not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from clew_daemon.host.tasks import RETRY_S, GoalQueue
from clew_daemon.learning.playbook import PlaybookStore
from clew_daemon.learning.review import ReviewFold
from clew_daemon.record.goals import GoalStore
from clew_daemon.record.store import catch_up, output_text
from clew_shared.config.tables import PlaybookSettings
from clew_shared.core.journal import RecordedEvent
from clew_shared.ledger import LedgerCorrupt
from clew_shared.record import events as ev

log = structlog.get_logger()

PRUNE_EVERY_S = 3600.0


class Reviewer:
    """Reviews one goal after the other; `start` and `stop` once each."""

    def __init__(
        self, goals: GoalStore, playbook: PlaybookStore, settings: Callable[[], PlaybookSettings]
    ) -> None:
        self._goals = goals
        self._playbook = playbook
        self._settings = settings
        self._queue = GoalQueue(self._review, _log_failure)
        goals.listeners.append(self._on_records)

    async def start(self) -> None:
        """Start reviewing, first what an earlier daemon left."""
        for goal, core in self._goals.cores.items():
            if core.state.rested_seq > core.state.reviewed_seq:
                self._queue.due(goal)
        self._queue.start()

    async def stop(self) -> None:
        """Finish what is due, within the time that a stop has, then stop."""
        await self._queue.stop()

    def _on_records(self, goal: str, records: list[RecordedEvent]) -> None:
        if any(isinstance(record.event, ev.RESTS) for record in records):
            self._queue.due(goal)

    async def _review(self, goal: str) -> None:
        core, ledger = self._goals.cores.get(goal), self._goals.ledger
        if core is None:
            return
        state = core.state
        fold = ReviewFold(
            goal, state.spec, lambda seq: output_text(ledger, seq), state.reviewed_seq
        )
        outcomes = await asyncio.to_thread(lambda: list(catch_up(fold, ledger, goal)))
        if outcomes and goal in self._goals.cores:
            await self._playbook.review(core, outcomes, self._settings())


def _log_failure(goal: str, error: Exception) -> None:
    if isinstance(error, LedgerCorrupt):
        log.error("review.failed", goal=goal, reason=str(error))
    else:
        log.warning("review.deferred", goal=goal, reason=str(error), again_s=RETRY_S)
