"""The lowest layer of the core: a goal's state, its limits and attempts, and the events that lead on from it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from math import ceil
from typing import Literal

from clew_shared.config.tables import LoopSettings
from clew_shared.core.answers import WrongState
from clew_shared.core.questions import signature_of
from clew_shared.gate.rules import PROTOCOL, AgentCalls
from clew_shared.record import events as ev
from clew_shared.record.fold import apply
from clew_shared.record.model import Action, GoalStatus, Result, StepStatus
from clew_shared.record.state import State
from clew_shared.text.shorten import both_ends, in_one_line, one_line
from clew_shared.text.words import ending, said_why

REASON_CHARS = 400
TRIED_MAX = 10  # how many lines the next attempt is shown of what was tried: of as many attempts
STALE_TURNS = 3  # turns in a row without anything new, after which an attempt makes no progress
TURNS_TO_FINISH = 2  # how many turns an attempt may take beyond its limit while all checks pass

ERRORS_SHOWN = 3
_NO_ERRORS = frozenset({"", "success", "blocked", "interrupted"})
LINE_CHARS = 480
HEAD_CHARS = 120
_TRACEBACK = "Traceback (most recent call last)"
IGNORED_LIMIT = 2  # this many ignored interventions in a subtask are a failure of it (docs/loops.md, Interventions)
REASON = "budget: "  # begins the reason of a goal that is blocked by a limit


@dataclass(frozen=True, slots=True)
class Limits:
    """What a goal may use."""

    actions: int = 1000
    messages: int = 1000  # without a turn
    iterations: int | None = None
    attempts: int = 1  # at a subtask
    attempt_turns: int = 10  # of each, where there are several
    first_turns: int = 0  # of the first, 0: the same

    def turns(self, attempt: int) -> int:
        return self.first_turns if self.first_turns and attempt == 1 else self.attempt_turns


@dataclass(frozen=True, slots=True)
class TurnsLeft:
    """How many turns are left until the limit that comes first (by estimate where it is none of turns), of how many."""

    turns: int
    of: int
    limit: str


@dataclass(frozen=True, slots=True)
class AttemptGround:
    """What an attempt begins on: how many files were restored, or why none were, and some that were left."""

    restored: int = 0
    kept: str = ""
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event with its number, and the big output that belongs to it."""

    seq: int
    event: ev.Event
    output: bytes | None = None


@dataclass(slots=True)
class GoalJournal:
    """A goal's state, what it is judged by, and its events that are not in the ledger yet."""

    state: State
    loops: LoopSettings
    # of the next event in the ledger; what `take` returns is recorded before another goal emits one
    number: Callable[[], int]
    limits: Limits = field(default_factory=Limits)
    ignored_limit: int = IGNORED_LIMIT
    runbook: bool = False  # the agent carries out the steps of the goal file, and nothing else
    calls: AgentCalls = PROTOCOL  # what the agent can do instead of a refused action
    # of the present worker, by a monotonic clock; None: by the times of its events
    lived_s: Callable[[], float] | None = None
    messages: int = 0  # of the present worker, since its last turn
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

    def start_over(self, reason: str, at: float, *, advancing: bool = False) -> bool:
        """End the present attempt if another may follow; returns if it is over (`advancing` as in AttemptEnded)."""
        state = self.state
        if state.attempt.over:
            return True
        if not may_start_over(state, self.limits) or self.budget_spent(at):
            return False
        short = in_one_line(reason, REASON_CHARS)
        n, lines = state.attempt.number, tried(state, short)
        over = ev.AttemptEnded(at=at, attempt=n, reason=short, advancing=advancing, tried=lines)
        self.emit(over)
        return True

    def begin_attempt(self, at: float, ground: AttemptGround, *, rung: str = "") -> None:
        over, loops = self.state.attempt, self.loops
        afresh = loops.progress_aware and loops.scope == "subtask"
        scope: Literal["new", "keep"] = "new" if afresh else "keep"
        told = {"attempt": over.number + 1, "reason": over.over, "rung": rung, **asdict(ground)}
        self.emit(ev.AttemptStarted(at=at, scope=scope, **told))

    def budget_spent(self, at: float, *, acting: bool = False) -> str:
        """Return which limit is reached since a person last granted it, "" for none; `acting`: with one more action."""
        state, spec, limits = self.state, self.state.spec, self.limits
        if state.actions_total - state.attempts.actions_granted + acting > limits.actions:
            return f"the limit of {limits.actions} actions is reached"
        if state.attempts.messages + self.messages > limits.messages:
            why = "the agent reported no turn, so each of its messages counts"
            return f"the limit of {limits.messages} actions is reached: {why}"
        limit = spec.max_iterations or limits.iterations
        if limit is not None and state.iteration - state.attempts.iterations_granted >= limit:
            return f"the budget of {limit} iterations is used up"
        tokens = spec.budget_tokens
        if tokens is not None and state.cost.tokens - state.attempts.tokens_granted >= tokens:
            return f"the budget of {tokens} tokens is used up"
        active_s = state.cost.active_s - state.attempts.active_granted_s
        if state.working:
            active_s += self.lived_s() if self.lived_s else max(0.0, at - state.worker_since)
        if spec.budget_wall_s is not None and active_s >= spec.budget_wall_s:
            return f"the budget of {spec.budget_wall_s:g} seconds is used up"
        return ""


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


def may_start_over(state: State, limits: Limits, *, resumes: bool = False) -> bool:
    """Return whether another attempt at the current subtask may follow the present one."""
    at_work = state.goal.status == GoalStatus.IN_PROGRESS and not state.plan.replan_required
    is_open = state.subtask is not None and state.subtask.status == StepStatus.IN_PROGRESS
    return at_work and (is_open or resumes) and state.attempt.number < limits.attempts


def iterations_used_up(state: State, limits: Limits) -> bool:
    """Return whether an attempt has taken all its turns, or two more where its last ones made the checks pass."""
    used = state.iteration - state.attempt.from_iteration
    since, found = state.attempt.seq, [state.proofs.checks.get(name) for name in state.spec.checks]
    passes = bool(found) and all(last and last.passed and last.seq > since for last in found)
    allowed = limits.turns(state.attempt.number) + (TURNS_TO_FINISH if passes else 0)
    return limits.attempts > 1 and used >= allowed


def advances(state: State) -> bool:
    """Return whether an attempt made progress: it changed files, brought news lately, and no check found it wrong."""
    changed = len(state.loops.scope.worlds) > 1
    is_fresh = state.loops.attention.iterations_without_facts < STALE_TURNS
    return changed and is_fresh and not (state.loops.refused.count or failing_checks(state))


def failing_checks(state: State) -> list[str]:
    """Return the names of the checks that ran in the present attempt and fail."""
    since = state.attempt.seq
    checks = state.proofs.checks.items()
    return [name for name, last in checks if not last.passed and last.seq > since]


def tried(state: State, reason: str) -> tuple[str, ...]:
    """Return a line for each attempt at the current subtask, with the present one, which ended for `reason`.

    It has what went wrong and not what was called: a small model repeats the calls that it is shown, also those that
    failed, and finds another way where it only reads what must be different (docs/measurements.md).
    """
    attempt = state.attempt
    errors = _errors(state, attempt.number, attempt.seq)
    line = "; then ".join([*errors, _failing_check(state) or f"ended: {ending(reason)}"])
    line = line.replace(f"{state.spec.workspace.rstrip('/')}/", "")
    return (*attempt.tried, both_ends(f"Attempt {attempt.number}: {line}", LINE_CHARS))[-TRIED_MAX:]


def _errors(state: State, number: int, since: int) -> list[str]:
    """Return how the last actions of an attempt failed: the tool and the head of the answer, each answer once."""
    texts: dict[str, None] = {}
    for action in state.subtask.actions if state.subtask else []:
        if action.attempt != number or action.seq <= since or action.result in _NO_ERRORS:
            continue
        last = state.loops.scope.last(signature_of(state, action))
        if head := both_ends(one_line(_end_of_traceback(last.head)), HEAD_CHARS) if last else "":
            texts[f"{action.name} failed: {head}"] = None
    return list(texts)[-ERRORS_SHOWN:]


def _end_of_traceback(output: str) -> str:
    """Return the last line of an output that is a traceback of Python, any other as it is: half a frame misleads."""
    lines = output.rstrip().splitlines()
    return lines[-1] if lines and _TRACEBACK in output else output


def _failing_check(state: State) -> str:
    """Return why the last `finish` was refused, or what the last checks found, by the first that fails; "" for none."""
    refused = [name for name in state.loops.refused.failing if name in state.proofs.checks]
    failing = refused or failing_checks(state)
    if not failing:
        return ""
    why = _end_of_traceback(said_why(state.proofs.checks[failing[0]].output))
    head = both_ends(one_line(why), HEAD_CHARS)
    return f"check {failing[0]} failed: {head}"


# When an action would run a second time: a step of a runbook that was cut off, or has failed, runs again at a person's
# word, or that of the goal file; steps that worked are never proposed again.


def last_run(state: State, name: str) -> Action | None:
    return next((a for a in reversed(_ran(state)) if signature_of(state, a) == name), None)


def in_vain(state: State, name: str) -> list[Action]:
    """Return the last runs of this signature in a row that did not succeed, in the present attempt, oldest first."""

    def failed(action: Action) -> bool:
        is_new = action.seq > state.attempt.seq and action.result != Result.SUCCESS
        return is_new and signature_of(state, action) == name

    return [*takewhile(failed, reversed(_ran(state)))][::-1]


def needs_word(state: State, name: str) -> Action | None:
    """Return the last run of a step that needs a person's permission to run again, else None."""
    runs = in_vain(state, name)
    if not runs or runs[-1].seq == state.attempts.may_rerun:
        return None
    last = runs[-1]
    if last.result == Result.INTERRUPTED:
        return None if state.spec.on_interrupt == "retry" else last
    since = [a for a in runs if a.seq > state.attempts.may_rerun and a.result != Result.INTERRUPTED]
    return None if len(since) <= state.spec.retries else last


def to_ask_about(state: State) -> Action | None:
    """Return the step of a runbook that a person is asked about, were its worker to end now, and another to begin."""
    ran = _ran(state)
    if flights := list(state.in_flight.values()):
        return None if state.spec.on_interrupt == "retry" else flights[-1].action
    return needs_word(state, signature_of(state, ran[-1])) if ran else None


def has_retries(state: State) -> bool:
    """Return whether the step that failed last may run again, as the goal file says."""
    ran = _ran(state)
    return bool(ran) and needs_word(state, signature_of(state, ran[-1])) is None


def run_number(state: State, name: str, *, is_step: bool) -> int:
    """Return which run of this action the next one is: of a runbook's step, or of one that was cut off, else 1."""
    if is_step:
        runs = in_vain(state, name) or [a for a in _ran(state) if a.seq <= state.attempt.seq]
    else:
        runs = [a for a in _ran(state) if a.result == Result.INTERRUPTED]
    return next((a.run + 1 for a in reversed(runs) if signature_of(state, a) == name), 1)


def _ran(state: State) -> list[Action]:
    subtask = state.subtask
    return [a for a in subtask.actions if a.result != Result.BLOCKED] if subtask else []
