"""All goals of a daemon: their cores in memory, and how they are accepted, continued and purged."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from clew_daemon.ledger.ledger import Ledger
from clew_daemon.record.goal_events import GoalEvents
from clew_daemon.record.goal_limits import has_runbook, limits_of
from clew_daemon.record.store import in_order, load_outlined, replayed
from clew_shared.config.tables import Settings
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record.codec import OUTLINE_VERSION, outline
from clew_shared.record.daemon_events import GoalForgotten
from clew_shared.record.model import GoalStatus
from clew_shared.record.state import State

TURN_S = 2.0  # the longest wait for the turn before, which may be reading from a disk that hangs


class GoalStore(GoalEvents):
    """The goals on record, by id: `cores` of all, `outlined` those of which only the outline is in memory.

    `gone` has the purged goals with the status in which they ended, "" if that is not known; `identities` the goal
    of each accepted file; `names` all names that goals have or had, "" for none; `accepting` orders acceptances.
    """

    def __init__(self, ledger: Ledger, settings: Settings) -> None:
        over = load_outlined(ledger)
        rest = [replayed(ledger, goal) for goal in ledger.goals() if goal not in over]
        super().__init__(ledger, {*over}, {s.goal_id: n for s, n in rest})
        self.settings = settings
        self.accepting = OrderedTurns()
        states = in_order([*over.values(), *(s for s, _ in rest)])
        self.cores = {goal: self._core(state) for goal, state in states.items()}
        bodies = reversed(ledger.own("goal_forgotten"))
        ends = {e.goal: e.status for e in map(GoalForgotten.model_validate_json, bodies)}
        self.gone = {goal: ends.get(goal, "") for goal in ledger.purged()}
        self.identities = {s.identity: goal for goal, s in states.items() if s.identity}
        self.names = {core.state.spec.name for core in self.cores.values()}

    def states(self) -> dict[str, State]:
        return {goal: core.state for goal, core in self.cores.items()}

    def may_evict(self, goal: str) -> bool:
        """Return whether all of a goal is in memory and need not be."""
        settled = self.cores[goal].state.settled
        return settled and goal not in self.outlined and not self.is_committing(goal)

    def evict(self, goal: str) -> None:
        """Leave only the outline of a settled goal in memory."""
        core = self.cores[goal]
        if self.may_evict(goal):
            core.state = outline(core.state)
            self.outlined.add(goal)
            self.stored.write(core.state, OUTLINE_VERSION)

    async def whole(self, goal: str) -> Core:
        """Return a goal's core with all of its state, loaded again if it is outlined or broken."""
        if goal in self.outlined or goal in self.broken:
            await self.commit(self.cores[goal])
            state, events = await asyncio.to_thread(replayed, self.ledger, goal)
            if goal in self.outlined or goal in self.broken:  # no other caller was faster
                self.outlined.discard(goal)
                self.broken.discard(goal)
                self.cores[goal].state, self.stored.since[goal] = state, events
        return self.cores[goal]

    def adopt(self, settings: Settings, of: Callable[[str], Settings] | None = None) -> None:
        """Judge by other settings from now on; `of` returns the settings of a goal."""
        self.settings = settings
        for goal, core in self.cores.items():
            self.judge_by(core, of(goal) if of else settings)

    def judge_by(self, core: Core, settings: Settings) -> None:
        self.names.add(core.state.spec.name)  # it may have been edited
        core.loops, core.limits = settings.loops, limits_of(core.state, settings)
        core.runbook = has_runbook(core.state, settings)

    async def accept(self, event: ev.GoalAccepted, text: bytes) -> None:
        """Record a new goal with the bytes of its file, and wait until it is durable."""
        await self.commit(self.enter(event, text))

    def enter(self, event: ev.GoalAccepted, text: bytes) -> Core:
        """Record a new goal with the bytes of its file; it is accepted once that is committed."""
        core = self._core(State(goal_id=event.goal_id))
        with self.entering(core):
            core.emit(event, text)
            core.limits = limits_of(core.state, self.settings)
            self.cores[event.goal_id] = core
            self.identities[event.identity] = event.goal_id
            self.names.add(event.spec.name)
        return core

    async def accepted(self, identity: tuple[str, ...]) -> bool:
        """Return whether a file is a goal already, once that is durable; raises LedgerFailed if it will not be."""
        goal = self.identities.get(identity)
        if goal is None:
            return False
        await self.commit(self.cores[goal])
        if self.ledger.failure:
            raise self.ledger.failure
        return True

    async def purge(self, goal: str) -> None:
        """Remove an ended goal; the ledger retains what `verify` needs of it, and how it ended."""
        core = self.cores.pop(goal)  # before anything is awaited: requests find no goal from now on
        status = GoalStatus(core.state.goal.status)
        try:
            await self.emit_own([GoalForgotten(at=time.time(), goal=goal, status=status)])
        except BaseException:  # it is still on record
            self.cores[goal] = core
            raise
        self.identities.pop(core.state.identity, None)
        self.outlined.discard(goal)
        self.stored.since.pop(goal, None)
        self.gone[goal] = status
        await self.stored.drain()  # no state of it is stored later
        await self.ledger.purge(goal)

    def _core(self, state: State) -> Core:
        core = Core(state, self.settings.loops, lambda: self.next_seq(core.pending))
        core.limits = limits_of(state, self.settings)
        return core


class OrderedTurns:
    """Ordered turns: work that begins in some order does its last part in that order, unless one is slow."""

    def __init__(self) -> None:
        self._last: asyncio.Event | None = None

    @contextmanager
    def place(self) -> Iterator[Callable[[], Awaitable[None]]]:
        """Take a place in the order until the block is left; yields a function that waits for the turn."""
        before, mine = self._last, asyncio.Event()
        self._last = mine

        async def turn() -> None:
            if before is not None:
                with suppress(TimeoutError):  # then the one before continues after this one
                    await asyncio.wait_for(before.wait(), TURN_S)

        try:
            yield turn
        finally:
            mine.set()
