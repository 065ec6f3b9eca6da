"""The lowest layer of the core: a goal's state, its limits, and the events that lead on from it, for the ledger."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil

from clew_shared.config.tables import LoopSettings
from clew_shared.core.answers import WrongState
from clew_shared.gate.rules import PROTOCOL, AgentCalls
from clew_shared.record import events as ev
from clew_shared.record.fold import apply
from clew_shared.record.model import GoalStatus
from clew_shared.record.state import State

IGNORED_LIMIT = 2  # this many ignored interventions in a subtask are a failure of it (docs/loops.md, Interventions)
REASON = "budget: "  # begins the reason of a goal that is blocked by a limit


@dataclass(frozen=True, slots=True)
class Limits:
    """What a goal may use: actions, messages without a turn, turns (None: any number), and attempts at a subtask.

    Where there are several, each has `attempt_turns` turns, the first one `first_turns` unless that is 0.
    """

    actions: int = 1000
    messages: int = 1000
    iterations: int | None = None
    attempts: int = 1
    attempt_turns: int = 10
    first_turns: int = 0

    def turns(self, attempt: int) -> int:
        return self.first_turns if self.first_turns and attempt == 1 else self.attempt_turns


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class TurnsLeft:
    """How many turns are left until the limit that comes first (by estimate where it is none of turns), of how many."""

    turns: int
    of: int
    limit: str


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


def blocked_by_limit(state: State) -> str:
    """Return the limit for which the goal waits for a person, "" for none."""
    at_limit = state.goal.status == GoalStatus.BLOCKED and state.reason.startswith(REASON)
    return state.reason.removeprefix(REASON) if at_limit else ""


def turns_left(state: State, limits: Limits) -> TurnsLeft | None:
    """Return how many turns are left, the one to come included, as of the last turn on record; None without a limit."""
    found, spec = [], state.spec
    used = state.attempts
    turns = state.iteration - used.iterations_granted
    if limits.attempts > 1:
        taken = state.iteration - state.attempt.from_iteration
        of = limits.turns(state.attempt.number)
        found.append(TurnsLeft(of - taken, of, f"the {of} turns of this attempt"))
    if limit := spec.max_iterations or limits.iterations:
        found.append(TurnsLeft(limit - turns, limit, f"the goal's {limit} turns"))
    for spent, most, unit in (
        (state.cost.tokens - used.tokens_granted, spec.budget_tokens, "tokens"),
        (used.active_at_turn_s - used.active_granted_s, spec.budget_wall_s, "seconds"),
        (state.actions_total - used.actions_granted, limits.actions, "actions"),
    ):
        if most and spent > 0 and turns > 0:
            left, of = ceil((most - spent) * turns / spent), ceil(most * turns / spent)
            found.append(TurnsLeft(left, of, f"the goal's {most:g} {unit}"))
    if not found:
        return None
    first = min(found, key=lambda one: (one.turns, -one.of))
    return replace(first, turns=max(first.turns, 1))
