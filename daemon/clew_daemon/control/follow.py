"""The request `follow`: durable events in order, for as long as a client reads them (docs/stream.md).

There is no queue of events: each follower reads the next ones from the ledger when it has sent the last ones. While no
client follows, nothing here is called.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from clew_daemon.control.lookup import GoalLookup
from clew_daemon.control.requests import FollowRequest, StatusRequest
from clew_daemon.control.server import ControlError, Stream
from clew_daemon.record.goal_events import GoalEvents
from clew_shared.core.journal import RecordedEvent
from clew_shared.ledger import Cursor, EventRow

BATCH_ROWS = 500
BATCH_BYTES = 256 << 10
"""The size of the events that are sent as one line, and in memory for one client: the last one may exceed it."""

COLLECT_S = 0.05  # How long events are collected, so that steps in quick succession cost one read

SILENCE_S = 10.0
"""An empty batch is sent after this time without events: it shows that the daemon runs."""

ENDED_SHOWN = 50
"""How many goals that ended are in the state that a client begins with; `status` has the others."""


class Following:
    """Answers `follow`; `status` answers a `StatusRequest`."""

    def __init__(
        self,
        goals: GoalEvents,
        lookup: GoalLookup,
        status: Callable[[StatusRequest], Awaitable[Mapping[str, Any]]],
    ) -> None:
        self._goals = goals
        self._lookup = lookup
        self._status = status

    async def follow(self, request: FollowRequest) -> Stream:
        """Return where the stream begins, with the present state where it does not continue from `after`.

        The state is read after the cursor, so it lacks no event before it.
        """
        goal = self._lookup.find(request.goal).state.goal_id if request.goal else ""
        try:
            asked = None if request.after is None else Cursor.parse(request.after)
        except ValueError:
            problem = f"`after` is {str(request.after)[:100]!r}"
            raise ControlError(f"{problem}; it must be the cursor of an earlier answer") from None
        ledger = self._goals.ledger
        after = await asyncio.to_thread(
            lambda: asked if asked and asked.is_of(ledger) else Cursor.at_end(ledger)
        )
        answer = {"after": str(after), "reset": asked not in (None, after), "goals": []}
        if after != asked:
            found = await self._status(StatusRequest(limit=None if goal else ENDED_SHOWN))
            answer["goals"] = [view for view in found["goals"] if goal in ("", view["id"])]
        return Stream(answer, self._lines(after, goal))

    async def _lines(self, after: Cursor, goal: str) -> AsyncGenerator[bytes]:
        """Yield batches of one goal's events, or of all, until events that were not sent are purged."""
        listeners, wake = self._goals.listeners, asyncio.Event()

        def heard(_goal: str, _events: list[RecordedEvent]) -> None:
            wake.set()

        listeners.append(heard)
        try:
            silent_at = time.monotonic() + SILENCE_S
            while True:
                wake.clear()
                rows = await asyncio.to_thread(self._next, after)
                if rows is None:
                    return  # the client asks again, and is answered with a reset
                if rows:
                    after = Cursor(rows[-1].seq, rows[-1].hash)
                wanted = [row for row in rows if goal in ("", row.goal)]
                if wanted or time.monotonic() >= silent_at:
                    silent_at = time.monotonic() + SILENCE_S
                    yield _line(after, wanted)
                if rows:
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, silent_at - time.monotonic())):
                        await wake.wait()
                        await asyncio.sleep(COLLECT_S)
        finally:
            listeners.remove(heard)

    def _next(self, after: Cursor) -> list[EventRow] | None:
        """Read the next events; None if some after the cursor were purged."""
        ledger = self._goals.ledger
        rows = ledger.page(after.seq, BATCH_ROWS, BATCH_BYTES)
        return None if ledger.last_purged() > after.seq else rows


def _line(after: Cursor, rows: list[EventRow]) -> bytes:
    """Return the notification of events up to and including `after`; they are in it as the ledger has them."""
    events = b",".join(
        b'{"seq":%d,"goal":%b,"event":%b}' % (row.seq, json.dumps(row.goal).encode(), row.body)
        for row in rows
    )
    head = b'{"jsonrpc":"2.0","method":"events","params":{"after":"%b","events":['
    return b"%b%b]}}\n" % (head % str(after).encode(), events)
