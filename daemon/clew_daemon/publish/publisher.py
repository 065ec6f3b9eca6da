"""Publishes `.agent_context/` behind the ledger: coalesced, in a separate thread, so that it delays no other work.

At most one write per 250 ms and goal, and always at a subtask's end, a block, and a worker's end; fewer where a
write takes long. It hears of events only once they are durable.
"""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import structlog

from clew_daemon.host import tasks
from clew_daemon.record.goals import GoalStore
from clew_daemon.record.shrink import published_state
from clew_daemon.record.store import history_lines, text
from clew_shared.core.core import Core
from clew_shared.core.journal import RecordedEvent
from clew_shared.ledger import LedgerCorrupt, LedgerError, LedgerFailed
from clew_shared.record import events as ev
from clew_shared.text.plain import plain
from clew_shared.views.contextdir import ContextDir
from clew_shared.views.publish import HistoryFold, history_view, state_view

log = structlog.get_logger()

EVERY_S = 0.25
RESTS = 10
"""How many times as long as writing each goal once takes a goal waits after a write, except where it is urgent:
all writes together then take a tenth of a core, and of the time of the event loop's thread."""

LATEST_S = 5.0

LINES_AT_ONCE = 250
REST_MAX_S = 0.1
AGAIN_S = 5.0
BACKLOG_MAX = 20_000
PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_AT_ONCE = (ev.SubtaskEnded, ev.Escalated, ev.WorkerExited, ev.GoalEnded, ev.GoalBlocked)


@dataclass(slots=True)
class _Goal:
    folder: ContextDir
    fold: HistoryFold | None = None  # None: the files must be rebuilt from the ledger
    backlog: list[RecordedEvent] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)
    loops: bool = False
    timer: asyncio.Handle | None = None
    due: float = 0.0
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    last: bool = False  # no more events will come: dropped once it is written
    writing: bool = False
    again: bool = False
    hurry: bool = False
    missed: bool = False  # during a rebuild more was recorded than is held
    took_s: float = 0.0
    reported: str = ""


def pause_s(took_s: float, goals: int) -> float:
    """Return how long a goal waits after a write, given how long it took and how many goals are published."""
    return max(EVERY_S, min(LATEST_S, RESTS * took_s * goals))


class Publisher:
    """Keeps the published files of working goals up to date; `open` begins, `close` ends."""

    def __init__(self, goals: GoalStore) -> None:
        self._store = goals
        self._goals: dict[str, _Goal] = {}
        self._pool = tasks.pool(1, "clew-publish")
        self._builders = tasks.pool(1, "clew-rebuild")  # long records hold up no other goal
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = threading.Event()
        goals.listeners.append(self.take)

    def open(self, goal: str) -> None:
        """Build a goal's files from the ledger, and keep them from now on."""
        before = self._goals.get(goal)
        if before and before.timer:  # else two would write, and a line would be written twice
            before.timer.cancel()
            before.idle.set()
        state = self._store.cores[goal].state
        self._goals[goal] = _Goal(ContextDir(state.spec.workspace, state.workspace))
        self._soon(goal, 0.0)

    def take(self, goal: str, records: list[RecordedEvent]) -> None:
        """Hear of durable events."""
        files = self._goals.get(goal)
        if files is None:
            return
        files.backlog += records
        state = self._store.cores[goal].state
        files.last = state.settled and records[-1].seq == state.seq
        if files.fold:
            _digest(files)
        elif len(files.backlog) > BACKLOG_MAX:
            files.backlog.clear()
            files.missed = files.again = True
        urgent = any(isinstance(r.event, _AT_ONCE) for r in records) or any(
            isinstance(r.event, ev.ActionBlocked) for r in records
        )
        self._soon(goal, 0.0 if urgent else pause_s(files.took_s, len(self._goals)))

    def keeps(self, goal: str) -> bool:
        """Return whether a goal's files are published."""
        return goal in self._goals

    async def settle(self, goal: str) -> None:
        """Wait until all that can be written of the known events is written."""
        files = self._goals.get(goal)
        if files is None:
            return
        self._soon(goal, 0.0)
        await files.idle.wait()

    async def stop(self) -> None:
        """Write the remaining events, and end the threads."""
        self._closing.set()
        for goal in list(self._goals):
            await self.settle(goal)
        self._goals.clear()
        for pool in (self._pool, self._builders):
            pool.shutdown(wait=False, cancel_futures=True)

    def _soon(self, goal: str, after_s: float) -> None:
        files = self._goals[goal]
        if files.writing:
            files.again, files.hurry = True, files.hurry or not after_s
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + after_s
        if files.timer and files.due <= due:
            return
        if files.timer:
            files.timer.cancel()
        files.due, files.timer = due, loop.call_later(after_s, self._begin, goal)
        files.idle.clear()

    def _begin(self, goal: str) -> None:
        files = self._goals.get(goal)
        if files is None:
            return
        files.timer, files.writing = None, True
        task = asyncio.ensure_future(self._write(goal, files))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, goal: str, files: _Goal) -> None:
        passing = False
        try:
            await self._write_once(goal, files)
            files.reported = ""
        except (OSError, LedgerError) as error:
            files.fold = None
            if (reported := plain(error)) != files.reported:
                files.reported = reported
                log.warning("context.unwritable", goal=goal, error=reported)
            passing = _may_pass(error)
        finally:
            files.writing = False
            if files.again and not files.reported:
                self._soon(
                    goal, EVERY_S if files.hurry else pause_s(files.took_s, len(self._goals))
                )
                files.again = files.hurry = False
            else:
                files.idle.set()
                if self._goals.get(goal) is not files:
                    pass  # opened again meanwhile: a goal that was retried
                elif passing:
                    self._soon(goal, AGAIN_S)
                elif files.last and files.timer is None:
                    del self._goals[goal]

    async def _write_once(self, goal: str, files: _Goal) -> None:
        loop = asyncio.get_running_loop()
        state = state_view(self._store.cores[goal].state)
        if files.fold is None:
            await self._rebuild(goal, files, state)
            return
        lines, files.lines = files.lines, []
        loops = files.fold.loops if files.loops else None
        files.loops = False
        written, files.took_s = await loop.run_in_executor(
            self._pool, _timed_update, files.folder, state, lines, loops
        )
        if not written or len(files.lines) > BACKLOG_MAX:
            files.fold, files.again = None, True

    async def _rebuild(self, goal: str, files: _Goal, state: dict[str, Any]) -> None:
        """Write all of it again from the ledger, then what was recorded meanwhile."""
        loop = asyncio.get_running_loop()
        files.lines.clear()
        fold, files.missed = HistoryFold(), False
        core, lines = self._store.cores[goal], self._read(goal, fold)
        long = core.state.actions_total + core.state.blocked_total > LINES_AT_ONCE
        pool = self._builders if long else self._pool
        if long:
            await loop.run_in_executor(self._pool, _update, files.folder, state, [], None)
            building = loop.run_in_executor(pool, _build, files.folder, None, lines, fold)
            await self._show_meanwhile(files, core, building)
            files.again = files.hurry = True  # the state is written afresh, after its history
        else:
            await loop.run_in_executor(pool, _build, files.folder, state, lines, fold)
        while files.missed:
            files.missed = False
            lines = self._read(goal, fold)
            if not await loop.run_in_executor(pool, _go_on, files.folder, lines, fold):
                files.again = True
                return
        files.fold = fold
        _digest(files)

    async def _show_meanwhile(
        self, files: _Goal, core: Core, building: asyncio.Future[None]
    ) -> None:
        """Wait until a long history is built, and write the state meanwhile at what is always written."""
        loop = asyncio.get_running_loop()
        try:
            while not building.done():
                await asyncio.wait([building], timeout=EVERY_S)
                if files.hurry and not building.done():
                    files.hurry, state = False, state_view(core.state)
                    await loop.run_in_executor(self._pool, _update, files.folder, state, [], None)
        finally:
            await building  # else the next try would begin beside it

    def _read(self, goal: str, fold: HistoryFold) -> Iterator[dict[str, Any]]:
        """Read lines with rests between as long as the work: this thread keeps the one that judges from running."""
        began = time.monotonic()
        for number, line in enumerate(history_lines(self._store.ledger, goal, fold), 1):
            yield line
            if number % LINES_AT_ONCE == 0:
                self._closing.wait(min(REST_MAX_S, time.monotonic() - began))
                began = time.monotonic()


def _build(
    folder: ContextDir,
    state: dict[str, Any] | None,
    lines: Iterator[dict[str, Any]],
    fold: HistoryFold,
) -> None:
    folder.rebuild(state and published_state(state), lines, fold.loops)


def _go_on(folder: ContextDir, lines: Iterator[dict[str, Any]], fold: HistoryFold) -> bool:
    """Append what follows; False if the files must be built again."""
    while some := list(islice(lines, LINES_AT_ONCE)):
        if not folder.update(None, some, fold.loops):
            return False
    return True


def _update(
    folder: ContextDir,
    state: dict[str, Any],
    lines: list[dict[str, Any]],
    loops: list[dict[str, Any]] | None,
) -> bool:
    return folder.update(published_state(state), lines, loops)


def _timed_update(
    folder: ContextDir,
    state: dict[str, Any],
    lines: list[dict[str, Any]],
    loops: list[dict[str, Any]] | None,
) -> tuple[bool, float]:
    """Update; return the seconds that it took, without the time in the queue."""
    began = time.monotonic()
    return _update(folder, state, lines, loops), time.monotonic() - began


def _may_pass(error: OSError | LedgerError) -> bool:
    if isinstance(error, LedgerError):
        return not isinstance(error, LedgerCorrupt | LedgerFailed)
    return error.errno in PASSING


def _digest(files: _Goal) -> None:
    """Turn recorded events into lines that wait to be written; a rebuild may have read some of them already."""
    assert files.fold is not None  # noqa: S101 - callers have looked
    for record in files.backlog:
        if record.seq <= files.fold.seq:
            continue
        ended = files.fold.take(record.seq, record.event)
        files.loops = files.loops or isinstance(record.event, ev.LoopDetected)
        if ended:
            files.lines.append(history_view(ended[0], text(record.output)))
    files.backlog.clear()
