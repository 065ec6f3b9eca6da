"""The fold of thoughts and turns: the streaks that interventions are raised from, and what turns cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.judge.memory import take_thought, tell
from clew_shared.record.model import LlmCost
from clew_shared.record.state import (
    CALLS_KEPT,
    INSIGHTS_KEPT,
    Attention,
    LlmCall,
    Raised,
    State,
    Streak,
)

if TYPE_CHECKING:
    from clew_shared.record import events as ev

TOLD = frozenset({"nothing_new", "repeated_planning", "repetition"})
"""The interventions after which the judge waits until as much is owed again."""


def loop_detected(state: State, _e: ev.LoopDetected, _seq: int) -> None:
    state.loops_total += 1


def intervened(state: State, e: ev.Intervened, _seq: int) -> None:
    attention = state.attention
    if e.again:
        state.ignored_interventions += 1
    if e.intervention in TOLD:
        tell(state.scope.memory, warned=e.intervention == "nothing_new")
    if e.key and e.intervention != "nothing_new":
        streak = streak_of(state, e.intervention)
        attention.raised[e.intervention] = Raised(e.key, attention.steps, streak)


def drop_broken_streaks(state: State) -> None:
    """Drop the interventions whose streak was broken: they were heeded."""
    raised = state.attention.raised
    for kind in [k for k, r in raised.items() if streak_of(state, k) < r.streak]:
        del raised[kind]


def streak_of(state: State, intervention: str) -> int:
    """Return the present length of the streak that an intervention was raised from."""
    attention = state.attention
    match intervention:
        case "no_progress":
            return attention.iterations_without_facts
        case "repeated_planning":
            return attention.thoughts_without_tools
        case "theme":
            return attention.theme.count
        case "stuck":
            return attention.stuck
        case _:
            return 0


def thought(state: State, e: ev.Thought, seq: int) -> None:
    attention = state.attention
    attention.steps += 1
    same_theme = e.theme == attention.theme.what
    attention.theme = Streak(e.theme, attention.theme.count + 1 if same_theme else 1)
    attention.thoughts_without_tools = (
        0 if e.has_tool_calls else attention.thoughts_without_tools + 1
    )
    attention.new_thought = e.new
    take_thought(state.scope.memory, seq, e.words, acts=e.has_tool_calls)
    drop_broken_streaks(state)


def reflected(state: State, e: ev.Reflected, _seq: int) -> None:
    """Count a turn and its cost; one that a crash cut off has its cost, and goes on as the next one."""
    if not e.unfinished:
        state.iteration = max(state.iteration + 1, e.iteration)
        state.messages = 0
        _judge_turn(state.attention, e)
    drop_broken_streaks(state)
    _collect_insights(state, e)
    _charge(state, e)
    lived_s = max(0.0, e.at - state.worker_since) if state.working else 0.0
    state.active_at_turn_s = state.cost.active_s + lived_s
    if state.turn_at != state.place:  # this turn was one of the subtask before
        state.attempt.from_iteration = state.iteration
    state.turn_before = state.turn_at
    state.turn_at = state.place
    state.feedback_untold.clear()


def _judge_turn(attention: Attention, e: ev.Reflected) -> None:
    """Count what a turn says of itself, and whether it brought a fact."""
    attention.stuck = attention.stuck + 1 if e.assessment in ("stuck", "regressing") else 0
    if attention.fresh or e.assessment in ("stuck", "regressing"):
        attention.claims = 0
    elif e.assessment == "advancing":
        attention.claims += 1
    attention.iterations_without_facts = (
        0 if attention.fresh else attention.iterations_without_facts + 1
    )
    attention.fresh = False


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
