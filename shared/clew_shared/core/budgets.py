"""Which limit of a goal is reached; a limit is not a loop (docs/loops.md, Limits). Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from clew_shared.record.model import GoalStatus

if TYPE_CHECKING:
    from clew_shared.core.journal import AttemptLimits
    from clew_shared.record.state import State

REASON = "budget: "  # begins the reason of a goal that is blocked by a limit


@dataclass(frozen=True, slots=True)
class TurnsLeft:
    """How many turns are left until the limit that comes first, of how many, and which limit that is.

    Of a limit in tokens, seconds or actions the turns are an estimate by those so far.
    """

    turns: int
    of: int
    limit: str


def blocked_by_limit(state: State) -> str:
    """Return the limit for which the goal waits for a person, "" for none."""
    at_limit = state.goal.status == GoalStatus.BLOCKED and state.reason.startswith(REASON)
    return state.reason.removeprefix(REASON) if at_limit else ""


def turns_left(
    state: State, attempts: AttemptLimits, *, max_actions: int, max_iterations: int | None
) -> TurnsLeft | None:
    """Return how many turns are left, the one to come included, as of the last turn on record; None without a limit."""
    found, spec = [], state.spec
    used = state.attempts
    turns = state.iteration - used.iterations_granted
    if attempts.limit > 1:
        taken = state.iteration - state.attempt.from_iteration
        of = attempts.turns(state.attempt.number)
        found.append(TurnsLeft(of - taken, of, f"the {of} turns of this attempt"))
    if limit := spec.max_iterations or max_iterations:
        found.append(TurnsLeft(limit - turns, limit, f"the goal's {limit} turns"))
    for spent, most, unit in (
        (state.cost.tokens - used.tokens_granted, spec.budget_tokens, "tokens"),
        (used.active_at_turn_s - used.active_granted_s, spec.budget_wall_s, "seconds"),
        (state.actions_total - used.actions_granted, max_actions, "actions"),
    ):
        if most and spent > 0 and turns > 0:
            left, of = ceil((most - spent) * turns / spent), ceil(most * turns / spent)
            found.append(TurnsLeft(left, of, f"the goal's {most:g} {unit}"))
    if not found:
        return None
    first = min(found, key=lambda one: (one.turns, -one.of))
    return replace(first, turns=max(first.turns, 1))
