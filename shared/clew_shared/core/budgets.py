"""Which limit of a goal is reached; a limit is not a loop (docs/loops.md, Limits). Pure."""

from dataclasses import dataclass, replace
from math import ceil

from clew_shared.record.model import GoalStatus
from clew_shared.record.state import State

REASON = "budget: "  # begins the reason of a goal that is blocked by a limit


@dataclass(frozen=True, slots=True)
class Limits:
    """What a goal may use: actions, messages without a turn, turns (None: any number), and attempts at a subtask.

    Each attempt has `attempt_turns` turns, the first one `first_turns` unless that is 0. A goal with one attempt has no
    such limit.
    """

    actions: int = 1000
    messages: int = 1000
    iterations: int | None = None
    attempts: int = 1
    attempt_turns: int = 10
    first_turns: int = 0

    def turns(self, attempt: int) -> int:
        """Return the turns of an attempt, counted from 1."""
        return self.first_turns if self.first_turns and attempt == 1 else self.attempt_turns


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class TurnsLeft:
    """How many turns are left until the limit that comes first (by estimate where it is none of turns), of how many."""

    turns: int
    of: int
    limit: str


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
