"""Which budget of a goal is used up; a budget is not a loop (docs/loops.md, Escalation). Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew_shared.core.journal import AttemptLimits
    from clew_shared.record.state import State


@dataclass(frozen=True, slots=True)
class TurnsLeft:
    """How many turns are left until the limit that comes first, of how many, and which limit that is.

    Of a limit in tokens, seconds or actions the turns are an estimate by those so far.
    """

    turns: int
    of: int
    limit: str


def spent_budget(
    state: State, active_s: float, *, max_actions: int, max_iterations: int | None
) -> str:
    """Return which budget is used up, "" for none; `active_s` are seconds of work since the start.

    What counts is what was used since a person last granted the same amount again.
    """
    spec = state.spec
    if state.actions_total - state.actions_granted >= max_actions:
        return f"the limit of {max_actions} actions is reached"
    turns = state.iteration - state.iterations_granted
    limit = spec.max_iterations or max_iterations
    if limit is not None and turns >= limit:
        return f"the budget of {limit} iterations is used up"
    tokens = state.cost.tokens - state.tokens_granted
    if spec.budget_tokens is not None and tokens >= spec.budget_tokens:
        return f"the budget of {spec.budget_tokens} tokens is used up"
    if spec.budget_wall_s is not None and active_s - state.active_granted_s >= spec.budget_wall_s:
        return f"the budget of {spec.budget_wall_s:g} seconds is used up"
    return ""


def turns_left(
    state: State, attempts: AttemptLimits, *, max_actions: int, max_iterations: int | None
) -> TurnsLeft | None:
    """Return how many turns are left, the one to come included, as of the last turn on record; None without a limit."""
    found, spec = [], state.spec
    turns = state.iteration - state.iterations_granted
    if attempts.limit > 1:
        used, of = state.iteration - state.attempt.from_iteration, attempts.iterations
        found.append(TurnsLeft(of - used, of, f"the {of} turns of this attempt"))
    if limit := spec.max_iterations or max_iterations:
        found.append(TurnsLeft(limit - turns, limit, f"the goal's {limit} turns"))
    for spent, most, unit in (
        (state.cost.tokens - state.tokens_granted, spec.budget_tokens, "tokens"),
        (state.active_at_turn_s - state.active_granted_s, spec.budget_wall_s, "seconds"),
        (state.actions_total - state.actions_granted, max_actions, "actions"),
    ):
        if most and spent > 0 and turns > 0:
            left, of = ceil((most - spent) * turns / spent), ceil(most * turns / spent)
            found.append(TurnsLeft(left, of, f"the goal's {most:g} {unit}"))
    if not found:
        return None
    first = min(found, key=lambda one: (one.turns, -one.of))
    return replace(first, turns=max(first.turns, 1))
