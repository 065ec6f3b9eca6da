"""The fold of turns: what they cost, and what was found in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record.fold.loops import drop_broken_streaks, judge_turn
from clew_shared.record.model import LlmCost
from clew_shared.record.state import (
    CALLS_KEPT,
    INSIGHTS_KEPT,
    LlmCall,
    State,
)

if TYPE_CHECKING:
    from clew_shared.record import events as ev


def reflected(state: State, e: ev.Reflected, _seq: int) -> None:
    """Count a turn and its cost; one that a crash cut off has its cost, and goes on as the next one."""
    if not e.unfinished:
        state.iteration = max(state.iteration + 1, e.iteration)
        state.messages = 0
        judge_turn(state.attention, e)
    drop_broken_streaks(state.attention)
    _collect_insights(state, e)
    _charge(state, e)
    lived_s = max(0.0, e.at - state.worker_since) if state.working else 0.0
    state.active_at_turn_s = state.cost.active_s + lived_s
    if state.turn_at != state.place:  # this turn was one of the subtask before
        state.attempt.from_iteration = state.iteration
    state.turn_before = state.turn_at
    state.turn_at = state.place
    state.feedback_untold.clear()


def _collect_insights(state: State, e: ev.Reflected) -> None:
    """Add the most relevant findings in the last turn's results to the subtask that the results belong to."""
    subtask = state.subtask_at(*state.turn_at)
    if subtask is None or state.turn_before != state.turn_at:
        return
    found = [h["insights"] for h in e.hindsight if h.get("relevance") == "high"]
    subtask.insights += [insight for insight in found if insight]
    del subtask.insights[:-INSIGHTS_KEPT]


def _charge(state: State, e: ev.Reflected) -> None:
    """Add the cost of the turn's LLM call to the goal's, and to that of the subtask that it was made for.

    A turn without tokens, seconds and prompt (a runbook's) made no call.
    """
    subtask = state.subtask_at(*state.turn_at)
    called = bool(e.tokens or e.llm_s or e.prompt)
    of_agent = state.agent_costs.setdefault(state.agent, LlmCost())
    for cost in (state.cost, of_agent, *([subtask.cost] if subtask else [])):
        cost.calls += called
        cost.tokens += e.tokens
        cost.tokens_in += e.tokens_in
        cost.tokens_out += e.tokens_out
        cost.tokens_cached += e.tokens_cached
        cost.llm_s += e.llm_s
    if e.prompt is None:
        return
    prompt = state.prompt = e.prompt
    state.calls.append(
        LlmCall(
            iteration=state.iteration,
            tokens_in=e.tokens_in,
            tokens_out=e.tokens_out,
            tokens_cached=e.tokens_cached,
            llm_s=e.llm_s,
            chars=prompt.chars,
            kept=prompt.kept,
            sha=prompt.sha,
            cuts=prompt.cuts,
            window=prompt.window,
        )
    )
    del state.calls[:-CALLS_KEPT]
