"""Looks back on a goal when it has come to rest: strategies are credited and lessons learned, once for each rest.

What was looked back on is on record (`Reviewed`) in the same transaction as what came of it, so that a daemon
that dies anywhere does it again as a whole or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog

from clew_daemon.host import background
from clew_daemon.learning.review import Rest, Runs
from clew_daemon.record.store import output_text
from clew_shared.ledger import LedgerCorrupt, LedgerError, LedgerFailed
from clew_shared.record import events as ev
from clew_shared.record.codec import decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew_daemon.learning.playbook import Playbook
    from clew_daemon.record.goals import Book
    from clew_daemon.record.store import Readable
    from clew_shared.config.tables import PlaybookSettings
    from clew_shared.core.journal import RecordedEvent
    from clew_shared.record.state import State

log = structlog.get_logger()

PRUNE_EVERY_S = 3600.0
STOP_S = 5.0
AGAIN_S = 5.0
_RESTS = (ev.GoalEnded, ev.GoalBlocked)


class Reviewer:
    """Reviews one goal after the other; `start` and `stop` once each."""

    def __init__(
        self, book: Book, playbook: Playbook, settings: Callable[[], PlaybookSettings]
    ) -> None:
        self._book = book
        self._playbook = playbook
        self._settings = settings
        self._due: asyncio.Queue[str] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        book.listeners.append(self._heard)

    def start(self) -> None:
        """Begin, with what an earlier daemon left."""
        for goal, core in self._book.cores.items():
            if core.state.rested_seq > core.state.reviewed_seq:
                self._due.put_nowait(goal)
        self._task = background.begin(self._work())

    async def stop(self) -> None:
        """Finish what is due, within a bounded time."""
        if self._task is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self._due.join()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _heard(self, goal: str, records: list[RecordedEvent]) -> None:
        if any(isinstance(record.event, _RESTS) for record in records):
            self._due.put_nowait(goal)

    async def _work(self) -> None:
        while True:
            goal = await self._due.get()
            try:
                await self._review(goal)
            except LedgerFailed:
                return  # the next daemon does it
            except LedgerCorrupt as error:  # the next start tries it again
                log.error("review.failed", goal=goal, reason=str(error))  # noqa: TRY400 - a reason, no bug
            except (OSError, LedgerError) as error:
                log.warning("review.deferred", goal=goal, reason=str(error), again_s=AGAIN_S)
                asyncio.get_running_loop().call_later(AGAIN_S, self._due.put_nowait, goal)
            finally:
                self._due.task_done()

    async def _review(self, goal: str) -> None:
        core = self._book.cores.get(goal)
        if core is None:
            return
        rests = await asyncio.to_thread(rests_of, self._book.ledger, core.state)
        if rests and goal in self._book.cores:
            await self._playbook.review(core, rests, self._settings())


def rests_of(ledger: Readable, state: State) -> list[Rest]:
    """Read the rests of a goal that were not yet looked back on."""
    runs = Runs(state.spec, lambda seq: output_text(ledger, seq))
    rows = ledger.read(state.goal_id, state.reviewed_seq)
    taken = (runs.take(row.seq, decode(row.body)) for row in rows if row.kind in _OF_RUNS)
    return [rest for rest in taken if rest]


_OF_RUNS = frozenset(
    {
        "strategies_shown",
        "action_allowed",
        "action_blocked",
        "action_finished",
        "subtask_ended",
        "escalated",
        "planned",
        "tree_edited",
        "goal_ended",
        "goal_blocked",
    }
)
