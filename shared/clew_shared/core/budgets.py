"""Which budget of a goal is used up; a budget is not a loop (docs/loops.md, Escalation). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew_shared.record.state import State


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
