"""The daemon's book of goals: their cores in memory, and the one way by which events reach the ledger.

An event is folded at once, so that the next judgement sees it, and heard of only when it is durable: whoever
answers awaits `commit`. Nothing here knows processes or sockets.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from clew_daemon.record import eventlog
from clew_daemon.record.in_turn import InTurn
from clew_daemon.record.store import SNAPSHOT_EVERY, in_order, load_outlined, load_state, replayed
from clew_shared.config.settings import RunbookAgentSettings
from clew_shared.core.core import Core, Recorded
from clew_shared.ledger import Entry, Ledger
from clew_shared.record import events as ev
from clew_shared.record.model import GoalStatus
from clew_shared.record.state import STATE_VERSION, State, dump, outline, packed

if TYPE_CHECKING:
    from clew_shared.config.settings import Settings

TELL_S = 0.002
_STEPS = ("action_allowed", "action_finished")

Listener = Callable[[str, list[Recorded]], None]


class Book:
    """All goals of a daemon; `listeners` hear of events once they are durable, in order."""

    def __init__(self, ledger: Ledger, settings: Settings) -> None:
        self.ledger = ledger
        self.settings = settings
        self.listeners: list[Listener] = [eventlog.log_events]
        self._tasks: set[asyncio.Future[Any]] = set()
        self._commits: dict[str, asyncio.Future[None]] = {}
        self._heard: deque[tuple[str, list[Recorded]]] = deque()
        self._later: asyncio.TimerHandle | None = None
        self._last = ledger.last_seq()
        self._snapshots = ledger.snapshots(STATE_VERSION)
        self.accepting = InTurn()
        self._keeping = (
            asyncio.Lock()
        )  # one after the other: an older one never replaces a newer one
        over = load_outlined(ledger)
        self.outlined = {s.goal_id for s in over}  # of settled goals only the outline is in memory
        rest = [replayed(ledger, goal) for goal in ledger.without_outline(STATE_VERSION)]
        self.cores: dict[str, Core] = {
            goal: self._core(state)
            for goal, state in in_order([*over, *(s for s, _ in rest)]).items()
        }
        self._since_snapshot = {  # what was replayed counts, or daemons that die early would never keep one
            state.goal_id: events for state, events in rest
        }
        self.gone = dict.fromkeys(ledger.purged(), "")  # with the status that they ended with
        self.gone |= {goal: how for goal, how in _forgotten(ledger) if goal in self.gone}
        self.identities = {  # of accepted drops, and what goal each is
            core.state.identity: goal for goal, core in self.cores.items() if core.state.identity
        }

    def states(self) -> dict[str, State]:
        """Give the states of all goals, in the order of their acceptance."""
        return {goal: core.state for goal, core in self.cores.items()}

    def may_set_down(self, goal: str) -> bool:
        """Tell whether all of a goal is in memory and need not be."""
        settled = self.cores[goal].state.settled
        return settled and goal not in self.outlined and goal not in self._commits

    def set_down(self, goal: str) -> None:
        """Keep only the outline of a settled goal in memory, and a snapshot of all of it."""
        core = self.cores[goal]
        if self.may_set_down(goal):
            if self._snapshots.get(goal) != core.state.seq:
                self._keep(core)
            core.state = outline(core.state)
            self.outlined.add(goal)
            self._behind(self._keep_outline(core.state, dump(core.state)))

    async def whole(self, goal: str) -> Core:
        """Give a goal's core with all of its state, read again where only the outline was kept."""
        if goal in self.outlined:
            state = await asyncio.to_thread(load_state, self.ledger, goal)
            if goal in self.outlined:  # nobody else was quicker
                self.outlined.discard(goal)
                self.cores[goal].state = state
        return self.cores[goal]

    def adopt(self, settings: Settings, of: Callable[[str], Settings] | None = None) -> None:
        """Go by other thresholds from now on; `of` says which settings a goal goes by."""
        self.settings = settings
        for goal, core in self.cores.items():
            self.go_by(core, of(goal) if of else settings)

    def go_by(self, core: Core, settings: Settings) -> None:
        """Judge a goal by these settings from now on."""
        core.loops, core.max_actions = settings.loops, settings.limits.max_actions
        core.max_iterations = _turns(core.state, settings)

    async def accept(self, event: ev.GoalAccepted, text: bytes) -> None:
        """Record a new goal with the bytes of its file, and wait until it is durable."""
        await self.commit(self.enter(event, text))

    def enter(self, event: ev.GoalAccepted, text: bytes) -> Core:
        """Take in a new goal with the bytes of its file; it is accepted once that is committed."""
        core = self._core(State(goal_id=event.goal_id))
        with self.entering(core):
            core.emit(event, text)
            core.max_iterations = _turns(core.state, self.settings)
            self.cores[event.goal_id] = core
            self.identities[event.identity] = event.goal_id
        return core

    def is_entered(self, identity: tuple[str, ...]) -> bool:
        """Tell whether a drop has been entered as a goal, durably or not yet."""
        return identity in self.identities

    async def accepted(self, identity: tuple[str, ...]) -> bool:
        """Tell whether a drop is a goal already, once that is durable; raises LedgerFailed where it will not be."""
        goal = self.identities.get(identity)
        if goal is None:
            return False
        await self.commit(self.cores[goal])
        if self.ledger.failure:
            raise self.ledger.failure
        return True

    @contextmanager
    def entering(self, core: Core) -> Iterator[None]:
        """Bracket commands to a core, so that what they emitted is queued in the order of its numbers.

        No `await` may stand inside.
        """
        try:
            yield
        finally:
            self._flush(core)

    async def commit(self, core: Core) -> None:
        """Wait until all that the goal has emitted is durable."""
        done = self._commits.get(core.state.goal_id)
        if done is not None:
            await asyncio.shield(done)

    async def emit(
        self,
        core: Core,
        event: ev.Event,
        output: bytes | None = None,
        own: Sequence[ev.Event] = (),
    ) -> None:
        """Record one event and wait until it is durable; `own` ones of the daemon in the same transaction."""
        beside = [Recorded(self._number(), one) for one in own]
        try:
            core.emit(event, output)
        finally:
            self._flush(core, beside)
        await self.commit(core)

    async def forget(self, goal: str) -> None:
        """Remove an ended goal; the ledger keeps what `verify` needs of it, and how it ended."""
        core = self.cores.pop(
            goal
        )  # before anything is awaited: what is asked of it now finds no goal
        status = GoalStatus(core.state.goal.status)
        try:
            await self.emit_own([ev.GoalForgotten(at=time.time(), goal=goal, status=status)])
        except BaseException:  # it is still on record
            self.cores[goal] = core
            raise
        self.identities.pop(core.state.identity, None)
        self.outlined.discard(goal)
        self._since_snapshot.pop(goal, None)
        self._snapshots.pop(goal, None)
        self.gone[goal] = status
        await asyncio.gather(*self._tasks, return_exceptions=True)  # no snapshot of it comes later
        await self.ledger.purge(goal)

    async def emit_own(self, events: list[ev.Event]) -> None:
        """Record events of the daemon's own, that belong to no goal."""
        entries = [Entry("", e.kind, ev.encode(e)) for e in events]  # before any is numbered
        records = [Recorded(self._number(), event) for event in events]
        _, done = self.ledger.append(entries)
        await asyncio.shield(done)
        for listener in self.listeners:
            listener("", records)

    def _core(self, state: State) -> Core:
        return Core(
            state,
            self.settings.loops,
            self._number,
            max_actions=self.settings.limits.max_actions,
            max_iterations=_turns(state, self.settings),
        )

    def _number(self) -> int:
        self._last += 1
        return self._last

    def _flush(self, core: Core, own: Sequence[Recorded] = ()) -> None:
        records = core.take()
        if not records:
            return
        goal = core.state.goal_id
        if goal in self.outlined:
            raise AssertionError(f"{goal} was released, and its state cannot be continued")
        entries = [Entry("", r.event.kind, ev.encode(r.event)) for r in own]
        entries += [Entry(goal, r.event.kind, ev.encode(r.event), r.output) for r in records]
        seqs, done = self.ledger.append(entries)
        if seqs[-1] != records[-1].seq:
            raise AssertionError(f"numbered {records[-1].seq}, recorded as {seqs[-1]}")
        self._commits[goal] = done
        if own:
            done.add_done_callback(lambda f: self._durable("", list(own), f))
        done.add_done_callback(lambda f: self._durable(goal, records, f))
        self._snapshot(core, len(records))

    def _durable(self, goal: str, records: list[Recorded], done: asyncio.Future[None]) -> None:
        if self._commits.get(goal) is done:
            del self._commits[goal]
        if done.cancelled() or done.exception() is not None:
            return  # the ledger has failed, and says so itself
        self._heard.append((goal, records))
        loop = asyncio.get_running_loop()
        if all(record.event.kind in _STEPS for record in records):
            # steps are told of together, and not while the agent's next one may be on its way
            self._later = self._later or loop.call_later(TELL_S, self._tell)
        else:
            loop.call_soon(self._after_answers)

    def _after_answers(self) -> None:
        # one round later: who waits for the commit is answered before anything is logged or published
        asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        if self._later:
            self._later.cancel()
            self._later = None
        while self._heard:
            goal, records = self._heard.popleft()
            for listener in self.listeners:
                listener(goal, records)

    def _snapshot(self, core: Core, events: int) -> None:
        """Keep a snapshot now and then; behind the events, awaited by nobody."""
        goal = core.state.goal_id
        since = self._since_snapshot.get(goal, 0) + events
        if since >= SNAPSHOT_EVERY:
            since = 0
            self._keep(core)
        self._since_snapshot[goal] = since

    def _keep(self, core: Core) -> None:
        state = core.state
        self._snapshots[state.goal_id] = state.seq
        self._behind(self._keep_snapshot(state.goal_id, state.seq, dump(state)))

    def keep(self, goal: str, seq: int, version: int, kept: bytes) -> None:
        """Keep a snapshot of something else that is a fold of events, behind them."""
        self._behind(self.ledger.snapshot(goal, seq, version, kept))

    async def _keep_snapshot(self, goal: str, seq: int, dumped: bytes) -> None:
        async with self._keeping:
            state = await asyncio.to_thread(packed, dumped)
            await self.ledger.snapshot(goal, seq, STATE_VERSION, state)

    async def _keep_outline(self, state: State, dumped: bytes) -> None:
        async with self._keeping:
            kept = packed(dumped)
            await self.ledger.outline(
                state.goal_id, state.accepted_seq, state.seq, STATE_VERSION, kept
            )

    def _behind(self, writing: Coroutine[Any, Any, None]) -> None:
        """Write what nobody waits for."""
        task = asyncio.ensure_future(writing)
        self._tasks.add(task)
        task.add_done_callback(self._written)

    def _written(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a failed ledger is told by `on_state`; a snapshot may be missing


def _forgotten(ledger: Ledger) -> Iterator[tuple[str, str]]:
    """Yield the goals that were removed, and how they had ended, as far as that was recorded."""
    for body in ledger.forgotten():
        event = ev.GoalForgotten.model_validate_json(body)
        yield event.goal, event.status


def _turns(state: State, settings: Settings) -> int | None:
    """Return how many turns an agent has where its goal names no number; a runbook ends by itself."""
    agents = settings.agents
    name = state.spec.agent or None
    known = name is None or name in agents.names
    if known and isinstance(agents.get(name), RunbookAgentSettings):
        return None
    return settings.context.max_iterations
