"""The one way by which events reach the ledger, and by which the rest of the daemon learns of them.

An event is announced only once it is durable: first to those who await `commit`, then to the listeners.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import structlog

from clew_daemon.record import eventlog
from clew_shared.core.journal import RecordedEvent
from clew_shared.ledger import Ledger, NewEvent
from clew_shared.record.codec import encode

if TYPE_CHECKING:
    from clew_shared.record import events as ev

log = structlog.get_logger()

ANNOUNCE_S = 0.002
"""How long the events of steps are collected before listeners are called with them."""

_STEPS = ("action_allowed", "action_finished")

Listener = Callable[[str, list[RecordedEvent]], None]
"""Is called with a goal ("" for the daemon) and its events, in order, once they are durable."""


class Recorder:
    """Appends events to the ledger, which numbers them, and calls the `listeners` once they are durable."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.listeners: list[Listener] = [eventlog.log_events]
        self._commits: dict[str, asyncio.Future[None]] = {}
        self._durable: deque[tuple[str, list[RecordedEvent]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def record(self, goal: str, events: list[RecordedEvent], own: Sequence[ev.Event] = ()) -> None:
        """Append a goal's events, after `own` ones of the daemon, in one transaction; `commit` awaits it."""
        entries = [NewEvent("", e.kind, encode(e)) for e in own]
        entries += [NewEvent(goal, r.event.kind, encode(r.event), r.output) for r in events]
        first = self.ledger.assigned + len(own) + 1
        if [r.seq for r in events] != list(range(first, first + len(events))):
            raise AssertionError(f"{goal}: numbered {events[0].seq}, would be recorded as {first}")
        seqs, done = self.ledger.append(entries)
        self._commits[goal] = done
        if own:
            beside = [RecordedEvent(*one) for one in zip(seqs, own, strict=False)]
            done.add_done_callback(lambda f: self._committed("", beside, f))
        done.add_done_callback(lambda f: self._committed(goal, events, f))

    async def record_own(self, events: list[ev.Event]) -> None:
        """Record events of the daemon, which belong to no goal, and wait until they are durable."""
        seqs, done = self.ledger.append([NewEvent("", e.kind, encode(e)) for e in events])
        await asyncio.shield(done)
        self._tell("", [RecordedEvent(*one) for one in zip(seqs, events, strict=True)])

    def is_committing(self, goal: str) -> bool:
        """Return whether events of the goal are not durable yet."""
        return goal in self._commits

    async def commit(self, goal: str) -> None:
        """Wait until all recorded events of the goal are durable."""
        done = self._commits.get(goal)
        if done is not None:
            await asyncio.shield(done)

    def _committed(
        self, goal: str, events: list[RecordedEvent], done: asyncio.Future[None]
    ) -> None:
        if done.cancelled() or done.exception() is not None:
            return  # the ledger has failed, and reports it itself; whoever awaits this commit later learns of it, too
        if self._commits.get(goal) is done:
            del self._commits[goal]
        self._durable.append((goal, events))
        loop = asyncio.get_running_loop()
        if all(record.event.kind in _STEPS for record in events):
            # steps are announced together, and not while the agent's next one may be on its way
            self._timer = self._timer or loop.call_later(ANNOUNCE_S, self._announce)
        else:
            loop.call_soon(self._after_answers)

    def _after_answers(self) -> None:
        # one round later: those who await the commit answer before anything is logged or published
        asyncio.get_running_loop().call_soon(self._announce)

    def _announce(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        while self._durable:
            self._tell(*self._durable.popleft())

    def _tell(self, goal: str, events: list[RecordedEvent]) -> None:
        for listener in self.listeners:
            try:
                listener(goal, events)
            except Exception as error:  # the others, and later events, must not suffer from it
                log.exception("daemon.bug", goal=goal, error=repr(error))
