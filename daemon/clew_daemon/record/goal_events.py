"""The one way by which events reach the ledger, and by which the rest of the daemon learns of them.

Commands to the goals' cores are bracketed, so that the events they emit are recorded. An event is folded at once, so
that the next judgement sees it, and announced only when it is durable: first to those who await `commit`, then to the
listeners. Snapshots and outlines of goals are written behind the events, and awaited by no command.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

import structlog

from clew_daemon.ledger.ledger import Future, Ledger
from clew_daemon.logs.setup import together
from clew_daemon.record import eventlog
from clew_daemon.record.store import STORED_EVERY
from clew_shared.core.answers import WrongState
from clew_shared.core.core import Core
from clew_shared.core.journal import RecordedEvent
from clew_shared.ledger.errors import LedgerError, LedgerFailed, NewEvent
from clew_shared.record import events as ev
from clew_shared.record.codec import STATE_VERSION, compressed, dump, encode
from clew_shared.record.state import State

log = structlog.get_logger()

ANNOUNCE_S = 0.02  # how long the events of steps are collected before listeners hear of them
T = TypeVar("T")
_STEPS = frozenset({"action_allowed", "action_finished"})

# Is called with a goal ("" for the daemon) and its events, in order, once they are durable.
Listener = Callable[[str, list[RecordedEvent]], None]


class GoalEvents:
    """Records what cores emit, and calls `listeners` with it once it is durable, in order.

    Those of `outlined` goals can emit nothing, nor those of `broken` ones, whose state must be loaded again.
    """

    def __init__(self, ledger: Ledger, outlined: set[str], replayed: dict[str, int]) -> None:
        self.ledger = ledger
        self.outlined = outlined
        self.broken: set[str] = set()
        self.listeners: list[Listener] = [eventlog.log_events]
        self.stored = StoredStates(ledger, replayed)
        self._own: Sequence[ev.Event] = ()
        self._commits: dict[str, tuple[Future, list[Future]]] = {}
        self._durable: deque[tuple[str, list[RecordedEvent]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def next_seq(self, pending: int) -> int:
        """Return the number that the ledger will give to the event after `pending` ones that are to be recorded."""
        return self.ledger.assigned + len(self._own) + pending + 1

    @contextmanager
    def entering(self, core: Core, own: Sequence[ev.Event] = ()) -> Iterator[None]:
        """Bracket commands to a core, whose events are recorded after `own` ones; no `await` may be inside."""
        goal = core.state.goal_id
        if goal in self.broken:
            raise RuntimeError(f"the state of {goal} is to be loaded again, after an error")
        self._own = own
        try:
            try:
                yield
            finally:
                self._record(core.state, core.take(), own)
        except (WrongState, LedgerError):
            raise
        except Exception:
            self.broken.add(goal)
            raise
        finally:
            self._own = ()

    async def decide(
        self, core: Core, command: Callable[[Core], T], own: Sequence[ev.Event] = ()
    ) -> T:
        """Give a core a command, and wait until its events, and `own` ones of the daemon, are durable."""
        with self.entering(core, own):
            answer = command(core)
        await self.commit(core)
        return answer

    async def emit(self, core: Core, *events: ev.Event) -> None:
        """Record events of a goal in one transaction, and wait until they are durable."""
        await self.decide(core, lambda core: [core.emit(event) for event in events])

    async def emit_own(self, events: Sequence[ev.Event]) -> None:
        """Record events of the daemon, which belong to no goal, and wait until they are durable."""
        self._append("", [], events)
        await self._committed_of("")

    def commit(self, core: Core) -> Coroutine[object, object, None]:
        """Wait until all that the goal has emitted is durable."""
        return self._committed_of(core.state.goal_id)

    async def _committed_of(self, goal: str) -> None:
        if last := self._commits.get(goal):
            done, waiting = last
            # a future for each waiter: cancelling one must not cancel the others
            if not done.done():
                waiting.append(done.get_loop().create_future())
                await waiting[-1]
            await done

    def is_committing(self, goal: str) -> bool:
        """Return whether events of the goal are not durable yet."""
        return goal in self._commits

    def _record(self, state: State, events: list[RecordedEvent], own: Sequence[ev.Event]) -> None:
        if events and state.goal_id in self.outlined:
            raise AssertionError(f"{state.goal_id} was evicted: its outline cannot be continued")
        if events:
            self._append(state.goal_id, events, own)
            self.stored.count(state, len(events))

    def _append(self, goal: str, events: list[RecordedEvent], own: Sequence[ev.Event]) -> None:
        """Append a goal's events, after `own` ones of the daemon, in one transaction."""
        entries = [NewEvent("", e.kind, encode(e)) for e in own]
        for seq, r in enumerate(events, self.ledger.assigned + len(own) + 1):
            if r.seq != seq:
                raise AssertionError(f"{goal}: numbered {r.seq}, would be recorded as {seq}")
            entries.append(NewEvent(goal, r.event.kind, encode(r.event), r.output))
        beside = [RecordedEvent(seq, e) for seq, e in enumerate(own, self.ledger.assigned + 1)]
        waiting: list[Future] = []
        told = partial(self._committed, goal, events, beside, waiting)
        self._commits[goal] = self.ledger.append(entries, told)[1], waiting

    def _committed(
        self,
        goal: str,
        events: list[RecordedEvent],
        own: list[RecordedEvent],
        waiting: list[Future],
        error: LedgerFailed | None,
    ) -> None:
        for one in waiting:
            if not one.done():
                one.set_result(None)
        if error:
            return  # the ledger reports its failure itself; `commit` raises it for those who await it later
        if goal in self._commits and self._commits[goal][1] is waiting:
            del self._commits[goal]
        self._durable += [(of, some) for of, some in (("", own), (goal, events)) if some]
        loop = asyncio.get_running_loop()
        if not own and _STEPS.issuperset([record.event.kind for record in events]):
            # steps are announced together, and not while the agent's next one may be on its way
            self._timer = self._timer or loop.call_later(ANNOUNCE_S, self._announce)
        else:
            # one round later: those who await the commit answer before anything is logged or published
            loop.call_soon(lambda: loop.call_soon(self._announce))

    def _announce(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        with together():
            while self._durable:
                goal, events = self._durable.popleft()
                while self._durable and self._durable[0][0] == goal:
                    events += self._durable.popleft()[1]
                for listener in self.listeners:
                    try:
                        listener(goal, events)
                    except Exception as error:  # the other listeners must not suffer from it
                        log.exception("daemon.bug", goal=goal, error=repr(error))


class StoredStates:
    """Stores a goal's state every STORED_EVERY events; those that were `replayed` after the last one count, too."""

    def __init__(self, ledger: Ledger, replayed: dict[str, int]) -> None:
        self._ledger = ledger
        self.since = replayed
        self._tasks: set[asyncio.Future[None]] = set()
        self._writing = asyncio.Lock()  # in order: an older one never replaces a newer one

    def count(self, state: State, events: int) -> None:
        """Count new events of a goal, and store its state if that is due."""
        since = self.since.get(state.goal_id, 0) + events
        if since >= STORED_EVERY:
            since = 0
            self.write(state, STATE_VERSION)
        self.since[state.goal_id] = since

    def store(self, goal: str, seq: int, version: int, body: bytes) -> None:
        """Store something else that is a fold of events."""
        self._start(self._write(goal, seq, version, body, packed=True))

    async def drain(self) -> None:
        """Wait until everything begun so far is written, or has failed."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def write(self, state: State, version: int) -> None:
        """Store a goal's state, or in its place the outline of one that is settled."""
        self._start(self._write(state.goal_id, state.seq, version, dump(state)))  # as it is now

    async def _write(
        self, goal: str, seq: int, version: int, body: bytes, *, packed: bool = False
    ) -> None:
        with suppress(LedgerError):  # reported by `on_state`; a stored state may be missing
            async with self._writing:
                body = body if packed else await asyncio.to_thread(compressed, body)
                await self._ledger.snapshot(goal, seq, version, body)

    def _start(self, writing: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(writing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
