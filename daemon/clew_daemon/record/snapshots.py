"""Snapshots and outlines of goals, written behind the events and awaited by no command."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from clew_daemon.record.store import SNAPSHOT_EVERY
from clew_shared.record.snapshot import STATE_VERSION, compressed, dump

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from clew_shared.ledger import Ledger
    from clew_shared.record.state import State


class SnapshotWriter:
    """Writes a goal's snapshot every SNAPSHOT_EVERY events.

    `replayed` has the number of events that were replayed after each goal's snapshot. They count too: daemons that
    die early would never write one.
    """

    def __init__(self, ledger: Ledger, replayed: dict[str, int]) -> None:
        self._ledger = ledger
        self._seqs = ledger.snapshots(STATE_VERSION)
        self._since = replayed
        self._tasks: set[asyncio.Future[Any]] = set()
        self._writing = asyncio.Lock()  # in order: an older one never replaces a newer one

    def count(self, state: State, events: int) -> None:
        """Count new events of a goal, and write its snapshot if one is due."""
        since = self._since.get(state.goal_id, 0) + events
        if since >= SNAPSHOT_EVERY:
            since = 0
            self._snapshot(state)
        self._since[state.goal_id] = since

    def settle(self, state: State, outline: State) -> None:
        """Write the outline of a settled goal, and a snapshot of all of it unless there is one."""
        if self._seqs.get(state.goal_id) != state.seq:
            self._snapshot(state)
        self._start(self._write_outline(outline, dump(outline)))

    def store(self, goal: str, seq: int, version: int, body: bytes) -> None:
        """Write a snapshot of something else that is a fold of events."""
        self._start(self._ledger.snapshot(goal, seq, version, body))

    def drop(self, goal: str) -> None:
        """Forget a purged goal."""
        self._since.pop(goal, None)
        self._seqs.pop(goal, None)

    async def drain(self) -> None:
        """Wait until everything begun so far is written, or has failed."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _snapshot(self, state: State) -> None:
        self._seqs[state.goal_id] = state.seq
        self._start(self._write_snapshot(state.goal_id, state.seq, dump(state)))

    async def _write_snapshot(self, goal: str, seq: int, dumped: bytes) -> None:
        async with self._writing:
            body = await asyncio.to_thread(compressed, dumped)
            await self._ledger.snapshot(goal, seq, STATE_VERSION, body)

    async def _write_outline(self, state: State, dumped: bytes) -> None:
        async with self._writing:
            body = compressed(dumped)
            await self._ledger.outline(
                state.goal_id, state.accepted_seq, state.seq, STATE_VERSION, body
            )

    def _start(self, writing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(writing)
        self._tasks.add(task)
        task.add_done_callback(self._written)

    def _written(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a failed ledger is reported by `on_state`; a snapshot may be missing
