"""The rules for thoughts and streaks: when the agent needs an intervention.

An intervention refuses nothing. One that is ignored (its cause still holds three steps later, and has grown) is sent
again; the fold counts those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.gate.messages import nothing_new_message, tried
from clew_shared.gate.verdict import PROTOCOL
from clew_shared.judge.memory import due
from clew_shared.record.events import Intervened, LastGain, Stays
from clew_shared.record.fold.thoughts import streak_of
from clew_shared.text.shorten import in_one_line
from clew_shared.text.thoughts import GENERAL

if TYPE_CHECKING:
    from clew_shared.gate.verdict import AgentCalls, Thresholds
    from clew_shared.record.state import State

IGNORED_AFTER_STEPS = 3
FAILURE_CHARS = 300

_FAMILY = {
    "theme": "thought",
    "repeated_planning": "thought",
    "no_progress": "action",
    "stuck": "reflection",
}


def review(
    state: State,
    thresholds: Thresholds,
    calls: AgentCalls = PROTOCOL,
) -> Intervened | None:
    """Return the intervention that is due now, if any."""
    for found in (
        theme(state, thresholds, calls),
        repeated_planning(state, thresholds, calls),
        no_progress(state, thresholds, calls),
        stuck(state, thresholds, calls),
    ):
        if found and (found := _due(state, found)):
            return _with_tried(state, found)
    return nothing_new(state, thresholds, calls)


def _with_tried(state: State, due: Intervened) -> Intervened:
    """Append what was tried, after a line break."""
    if _FAMILY[due.intervention] == "thought":
        return due
    return due.model_copy(update={"message": due.message + tried(state)})


def _due(state: State, found: Intervened) -> Intervened | None:
    """Return None for what was sent just now; mark what was ignored as sent again."""
    attention = state.attention
    raised = attention.raised.get(found.intervention)
    if raised and raised.key == found.key:
        grown = streak_of(state, found.intervention) - raised.streak
        waited = attention.steps - raised.since
        # a turn is no step, so that a streak of turns is measured by its growth
        ignored = grown >= 1 and max(waited, grown) >= IGNORED_AFTER_STEPS
        return found.model_copy(update={"again": True}) if ignored else None
    family = _FAMILY[found.intervention]
    recent = (
        r
        for kind, r in attention.raised.items()
        if _FAMILY[kind] == family and attention.steps - r.since < IGNORED_AFTER_STEPS
    )
    return None if any(recent) else found


def theme(state: State, thresholds: Thresholds, calls: AgentCalls) -> Intervened | None:
    """Notice that the last thoughts all have one theme, without progress in between.

    Stops: "I need to plan", three times. Must pass: three searches,
    each announced by a thought, that find something new.
    """
    row = state.attention.theme
    if row.count < thresholds.theme_window or row.what == GENERAL:
        return None
    message = (
        f"Your last {row.count} thoughts were all {row.what.replace('_', ' ')} and nothing new came of them. "
        f"You are repeating yourself: take one concrete action now, or {calls.finish}."
    )
    return Intervened(intervention="theme", key=f"theme:{row.what}", message=message)


def repeated_planning(state: State, thresholds: Thresholds, calls: AgentCalls) -> Intervened | None:
    """Notice thoughts in a row without a tool call; with new content in the last one, twice as many.

    Stops: "let me think about step 2", "… step 3". Must pass: an analysis of four sentences before the first action,
    each about something else.
    """
    count = state.attention.thoughts_without_tools
    limit = thresholds.thoughts_without_tools * (2 if state.attention.new_thought else 1)
    if count < limit:
        return None
    message = (
        f"{count} thoughts in a row without a tool call. Act now: call one tool, or {calls.finish}."
    )
    return Intervened(intervention="repeated_planning", key="planning", message=message)


def no_progress(state: State, thresholds: Thresholds, calls: AgentCalls) -> Intervened | None:
    """Notice whole iterations that bring no new world and nothing new to know."""
    attention = state.attention
    count = attention.iterations_without_facts
    if count < thresholds.iterations_without_facts or attention.fresh:
        return None  # the present iteration is counted at its end
    claimed = "You call it advancing, but " if attention.claims else ""
    message = (
        f"{claimed}{count} iterations brought nothing new: no file changed and no new answer. Stop, say what you know, "
        f"and do one different, concrete action that you have not tried; if the work is done, {calls.finish}."
    )
    return Intervened(intervention="no_progress", key="stale", message=message)


def nothing_new(state: State, thresholds: Thresholds, calls: AgentCalls) -> Intervened | None:
    """Notice that steps which brought nothing new add up to `patience`, or that one answer stays.

    Stops: one file by cat, head and sed; the same error after each edit. Must pass: each step that brings a line, a
    name or a world that was not known, and numbers that go one way (docs/loops.md, What a step brings).
    """
    memory = state.scope.memory
    own = state.spec.patience
    patience = thresholds.patience if own is None else own
    if not (patience and thresholds.progress_aware):
        return None
    why = due(memory, patience, thresholds.repeat_limit)
    if not why:
        return None
    warned = memory.warned if why == "debt" else memory.told.stays > 0
    stays = Stays(text=memory.stayed, times=memory.stayed_times) if why == "stays" else None
    gained = LastGain(seq=memory.gained_seq, text=memory.news) if memory.news else None
    return Intervened(
        intervention="nothing_new",
        key=why,
        message=nothing_new_message(memory, stays, calls),
        again=bool(memory.firm and warned),
        debt=round(max(memory.debt.steps + memory.debt.shares * patience, memory.debt.stays), 1),
        since_gain=memory.since_gain,
        last_gain=gained,
        steps=tuple(seq for seq, _ in memory.idle),
        stays=stays,
    )


def stuck(state: State, thresholds: Thresholds, calls: AgentCalls) -> Intervened | None:
    """Notice that the agent itself reports, several times in a row, that it is stuck."""
    count = state.attention.stuck
    if count < thresholds.stuck_limit:
        return None
    failed = in_one_line(state.subtask.last_failure, FAILURE_CHARS) if state.subtask else ""
    failure = f" Last failure: {failed}." if failed else ""
    message = (
        f"You have called yourself stuck {count} times in a row. To recover: name what you tried and why it failed,"
        f" then do one different, concrete action.{failure} Otherwise {calls.failed}."
    )
    return Intervened(intervention="stuck", key="stuck", message=message)
