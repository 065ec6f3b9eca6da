"""Publishes `.agent_context/` behind the ledger: coalesced, in a separate thread, so that it delays no other work.

At most one write per 250 ms and goal, and always at a subtask's end, a block, and a worker's end; fewer where a
write takes long. What is new in a goal's history is read from the ledger, so only what is durable is published.
"""

import asyncio
import errno
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from clew_daemon.host import tasks
from clew_daemon.record.goals import GoalStore
from clew_daemon.record.shrink import published_state
from clew_daemon.record.store import history_lines
from clew_shared.core.journal import RecordedEvent
from clew_shared.ledger.errors import LedgerCorrupt, LedgerError, LedgerFailed
from clew_shared.record import events as ev
from clew_shared.text.plain import plain
from clew_shared.views.contextdir import ContextDir
from clew_shared.views.publish import HistoryFold, View, state_view

log = structlog.get_logger()

EVERY_S = 0.25
# How many times as long as writing each goal once takes a goal waits after a write, except where it is urgent: all
# writes together then take a tenth of a core.
RESTS = 10
LATEST_S = 5.0
LINES_AT_ONCE = 250
REST_MAX_S = 0.1
AGAIN_S = 5.0
PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_OF_STEPS = ev.ActionBlocked | ev.SubtaskEnded | ev.Escalated
_AT_ONCE = _OF_STEPS | ev.WorkerExited | ev.GoalEnded | ev.GoalBlocked


@dataclass(slots=True)
class _Goal:
    """The published files of one goal; `fold` has what is in them, None while they must be rebuilt."""

    folder: ContextDir
    fold: HistoryFold | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False  # no more events will come: dropped once it is written
    took_s: float = 0.0
    reported: str = ""

    def soon(self, *, urgent: bool) -> None:
        """Have it written: at once, or after a pause."""
        self.idle.clear()
        self.changed.set()
        if urgent:
            self.hurry.set()


def pause_s(took_s: float, goals: int) -> float:
    """Return how long a goal waits after a write, given how long it took and how many goals are published."""
    return max(EVERY_S, min(LATEST_S, RESTS * took_s * goals))


class Publisher:
    """Keeps the published files of working goals up to date; `open` begins, `stop` ends."""

    def __init__(self, goals: GoalStore) -> None:
        self._store = goals
        self._goals: dict[str, _Goal] = {}
        self._pool = tasks.pool(1, "clew-publish")
        self._builders = tasks.pool(1, "clew-rebuild")  # long records hold up no other goal
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._closing = threading.Event()
        goals.listeners.append(self.take)

    def open(self, goal: str) -> None:
        """Build a goal's files from the ledger, and keep them from now on."""
        state = self._store.cores[goal].state
        folder = ContextDir(state.spec.workspace, state.workspace)
        files = self._goals.get(goal)
        if files is None:
            files = self._goals[goal] = _Goal(folder)
            self._tasks[goal] = asyncio.ensure_future(self._keep(goal, files))
        files.folder, files.fold, files.is_over = folder, None, False
        files.soon(urgent=True)

    def take(self, goal: str, records: list[RecordedEvent]) -> None:
        if files := self._goals.get(goal):
            state = self._store.cores[goal].state
            files.is_over = state.settled and records[-1].seq == state.seq
            files.soon(urgent=any(isinstance(r.event, _AT_ONCE) for r in records))

    def keeps(self, goal: str) -> bool:
        return goal in self._goals

    async def settle(self, goal: str) -> None:
        """Wait until all that can be written of the known events is written."""
        if files := self._goals.get(goal):
            files.soon(urgent=True)
            await files.idle.wait()

    async def stop(self) -> None:
        """Write the remaining events, and end the threads."""
        self._closing.set()
        for goal in list(self._goals):
            await self.settle(goal)
        ending = list(self._tasks.values())
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for pool in (self._pool, self._builders):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _keep(self, goal: str, files: _Goal) -> None:
        """Write a goal's files whenever there is something new, until it is over and all of it is written."""
        is_pending = True
        try:
            while is_pending or not files.is_over:
                await files.changed.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s(files.took_s, len(self._goals))):
                        await files.hurry.wait()
                files.changed.clear()
                files.hurry.clear()
                again = await self._is_to_be_tried_again(goal, files)
                if again:
                    asyncio.get_running_loop().call_later(AGAIN_S, files.changed.set)
                is_pending = again or files.changed.is_set()
                if not files.changed.is_set():
                    files.idle.set()
        finally:
            files.idle.set()
            if self._goals.get(goal) is files:
                del self._goals[goal], self._tasks[goal]

    async def _is_to_be_tried_again(self, goal: str, files: _Goal) -> bool:
        """Write what is new; return whether that failed for a reason that may pass."""
        state, folder, fold = self._store.cores[goal].state, files.folder, files.fold
        is_long = fold is None and state.actions_total + state.loops.blocked_total > LINES_AT_ONCE
        pool = self._builders if is_long else self._pool
        write, began = asyncio.get_running_loop().run_in_executor, time.monotonic()
        try:
            written = await write(pool, self._write, goal, folder, fold, state_view(state))
        except (OSError, LedgerError) as error:
            files.fold = None
            if (reported := plain(error)) != files.reported:
                files.reported = reported
                log.warning("context.unwritable", goal=goal, error=reported)
            if isinstance(error, LedgerError):
                return not isinstance(error, LedgerCorrupt | LedgerFailed)
            return error.errno in PASSING
        if files.folder is folder:  # else it was opened again meanwhile
            files.fold, files.reported = written, ""
        if written is fold:
            files.took_s = time.monotonic() - began
        return False

    def _write(
        self, goal: str, folder: ContextDir, fold: HistoryFold | None, state: View
    ) -> HistoryFold:
        """Write the state and what is new in the other files, or all of them; return what is in them."""
        shown, ledger = published_state(state), self._store.ledger
        if fold is not None:
            last = fold.loops[-1:]
            lines = list(history_lines(ledger, goal, fold))
            loops = None if fold.loops[-1:] == last else fold.loops
            if folder.update(shown, lines, loops):
                return fold
        fold = HistoryFold()
        folder.update(shown, [], None)  # it can be read while the history is built
        folder.rebuild(shown, self._lines(goal, fold), fold.loops)
        return fold

    def _lines(self, goal: str, fold: HistoryFold) -> Iterator[View]:
        """Read lines with rests between as long as the work: this thread keeps the one that judges from running."""
        began = time.monotonic()
        for number, line in enumerate(history_lines(self._store.ledger, goal, fold), 1):
            yield line
            if number % LINES_AT_ONCE == 0:
                self._closing.wait(min(REST_MAX_S, time.monotonic() - began))
                began = time.monotonic()
