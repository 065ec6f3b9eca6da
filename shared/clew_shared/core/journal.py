"""The lowest layer of the core: a goal's state, and the events that lead on from it, queued for the ledger."""

from collections.abc import Callable
from dataclasses import dataclass, field

from clew_shared.config.tables import LoopSettings
from clew_shared.core.answers import WrongState
from clew_shared.core.budgets import DEFAULT_LIMITS, Limits
from clew_shared.gate.rules import PROTOCOL, AgentCalls
from clew_shared.record import events as ev
from clew_shared.record.fold import apply
from clew_shared.record.state import State

IGNORED_LIMIT = 2
"""This many ignored interventions in a subtask are a failure of it (docs/loops.md, Interventions)."""


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event with its number, and the big output that belongs to it."""

    seq: int
    event: ev.Event
    output: bytes | None = None


@dataclass(slots=True)
class GoalJournal:
    """A goal's state, what it is judged by, and its events that are not in the ledger yet.

    `number` returns the number that the ledger will give to the next event, after the `pending` ones; the driver must
    record what `take` returns before any other goal emits one. `calls` are what the agent is told that it can do
    instead of a refused action. `lived_s` returns how long the present worker has lived, by a monotonic clock (None: by
    the times of its events). `runbook`: the agent carries out the steps of the goal file, and nothing else.
    `messages` are those of the present worker since its last turn.
    """

    state: State
    loops: LoopSettings
    number: Callable[[], int]
    limits: Limits = DEFAULT_LIMITS
    ignored_limit: int = IGNORED_LIMIT
    runbook: bool = False
    calls: AgentCalls = PROTOCOL
    lived_s: Callable[[], float] | None = None
    messages: int = 0
    _queue: list[RecordedEvent] = field(default_factory=list)

    @property
    def pending(self) -> int:
        """How many events must be recorded."""
        return len(self._queue)

    def take(self) -> list[RecordedEvent]:
        """Return, and remove from the queue, the events that must be recorded."""
        queue, self._queue = self._queue, []
        return queue

    def emit(self, event: ev.Event, output: bytes | None = None) -> int:
        """Take an event into the state and the queue; returns its number. WrongState, and no change, if not allowed."""
        if not event.may_follow(self.state):
            is_now = "paused" if self.state.paused else self.state.goal.status
            raise WrongState(f"the goal is {is_now}")
        seq = self.number()
        apply(self.state, event, seq)
        self._queue.append(RecordedEvent(seq, event, output))
        return seq
