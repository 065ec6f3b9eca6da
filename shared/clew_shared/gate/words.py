"""The rules that speak: when the agent is told, and what (docs/loops.md, Interventions).

An intervention refuses nothing. One that is ignored (its cause still holds three steps later, and has grown) is sent
again; the fold counts those.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from clew_shared.gate.table import PROTOCOL
from clew_shared.judge.memory import due
from clew_shared.record.events import POLL, Intervened, LastGain, Stays
from clew_shared.text.shorten import in_one_line
from clew_shared.text.themes import GENERAL
from clew_shared.text.words import signature_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew_shared.config.tables import LoopSettings
    from clew_shared.gate.table import AgentCalls
    from clew_shared.record.state import State

BRING_NEWS = "Do something that can bring something new"  # begins the advice after the facts
NO_OUTPUT = "(no output)"
IGNORED_AFTER_STEPS = 3
FAILURE_CHARS = 300
TEXT_CHARS = 120


def review(
    state: State, thresholds: LoopSettings, calls: AgentCalls = PROTOCOL
) -> Intervened | None:
    """Return the intervention that is due now, if any."""
    return (
        _streak(state, thresholds, calls, theme=theme, repeated_planning=repeated_planning)
        or nothing_new(state, thresholds, calls)
        or _streak(state, thresholds, calls, no_progress=no_progress, stuck=stuck)
    )


def _streak(
    state: State,
    thresholds: LoopSettings,
    calls: AgentCalls,
    **rules: Callable[[State, LoopSettings, AgentCalls], str],
) -> Intervened | None:
    for kind, rule in rules.items():
        message = rule(state, thresholds, calls)
        if message and _is_due(state, kind):
            again = kind in state.attention.raised
            return _told(state, thresholds, kind, message, again=again)
    return None


def _only_looks(state: State) -> bool:
    """Return whether all that brought nothing was to look at what may change by itself."""
    return state.scope.memory.looks > 0 and not state.scope.memory.firm


def _is_due(state: State, kind: str) -> bool:
    """Return whether a streak is to be spoken of now: it has grown since the last time, or no other one was."""
    attention = state.attention
    if kind in attention.raised:
        return attention.streaks[kind] - attention.raised[kind] >= IGNORED_AFTER_STEPS
    others = any(one in attention.raised for one in _BESIDE.get(kind, ()))
    return not others or attention.steps - attention.told_at >= IGNORED_AFTER_STEPS


# Thoughts are spoken of once, though two streaks may count them.
_BESIDE = {"theme": ("repeated_planning",), "repeated_planning": ("theme",)}


def theme(state: State, thresholds: LoopSettings, calls: AgentCalls) -> str:
    """Notice that the last thoughts all have one theme, without progress in between."""
    row = state.attention.theme
    if row.count < thresholds.theme_window or row.what == GENERAL or _only_looks(state):
        return ""
    return (
        f"Your last {row.count} thoughts were all {row.what.replace('_', ' ')} and nothing new came of them. "
        f"You are repeating yourself: take one concrete action now, or {calls.finish}."
    )


def repeated_planning(state: State, thresholds: LoopSettings, calls: AgentCalls) -> str:
    """Notice thoughts in a row without a tool call; with new content in the last one, twice as many."""
    count = state.attention.thoughts_without_tools
    if count < thresholds.thoughts_without_tools * (2 if state.attention.new_thought else 1):
        return ""
    return (
        f"{count} thoughts in a row without a tool call. Act now: call one tool, or {calls.finish}."
    )


def no_progress(state: State, thresholds: LoopSettings, calls: AgentCalls) -> str:
    """Notice whole iterations that bring no new world and nothing new to know."""
    attention = state.attention
    count = attention.iterations_without_facts
    if count < thresholds.iterations_without_facts or attention.fresh:
        return ""  # the present iteration is counted at its end
    claimed = "You call it advancing, but " if attention.claims else ""
    files = "no file changed"
    if attention.moved:
        files = "the changes led back to states of the files that were there before"
    return (
        f"{claimed}{count} iterations brought nothing new: {files}, and no new answer came. Stop, say what you know, "
        "and do one different, concrete action that you have not tried; if the work is done, "
        f"{calls.finish}."
    )


def stuck(state: State, thresholds: LoopSettings, calls: AgentCalls) -> str:
    """Notice that the agent itself reports, several times in a row, that it is stuck."""
    count = state.attention.stuck
    if count < thresholds.stuck_limit:
        return ""
    failed = in_one_line(state.subtask.last_failure, FAILURE_CHARS) if state.subtask else ""
    failure = f" Last failure: {failed}." if failed else ""
    return (
        f"You have called yourself stuck {count} times in a row. To recover: name what you tried and why it failed,"
        f" then do one different, concrete action.{failure} Otherwise {calls.failed}."
    )


def nothing_new(state: State, thresholds: LoopSettings, calls: AgentCalls) -> Intervened | None:
    """Notice that steps which brought nothing new add up to `patience`, or that one answer stays."""
    memory, patience = state.scope.memory, patience_of(state, thresholds)
    why = due(memory, patience, thresholds.repeat_limit) if patience else ""
    before = [one for one in state.findings if one.stays and one.seq > state.attempt.seq]
    told = [one.times for one in before if one.stays == memory.stayed]
    if why == "stays" and told and _only_looks(state):
        return None  # of a poll once; then its debt speaks
    if not why or (why == "stays" and told and memory.stayed_times < told[-1] + told[0]):
        return None
    warned = memory.warned if why == "debt" else told
    again = bool(memory.firm and warned)
    steps = _steps(state, why, again=again)
    answer = f'"{_short(memory.stayed)}"' if memory.stayed else NO_OUTPUT
    last = f' The last new thing: "{_short(memory.news)}".' if memory.news else ""
    message = f"{_facts(state, why, steps, answer)}{last} {BRING_NEWS}, or, if the work is done, {calls.finish}."
    if polls := _only_looks(state):
        looks = memory.stayed_times if why == "stays" else memory.looks
        what = f"Still the same after {looks} looks ({answer}):"
        if memory.stayed_times < looks:  # there were others
            what = f"{looks} looks brought nothing new (the last: {answer}):"
        message = f"{what} wait longer between looks, or say what you wait for; if the work is done, {calls.finish}."
    return _told(
        state, thresholds, "nothing_new", message, why=why, again=again, poll=polls, steps=steps
    )


def _steps(state: State, why: str, *, again: bool) -> tuple[int, ...]:
    """Return the steps that a word is about; of one that is said again those since the word before."""
    memory = state.scope.memory
    steps = memory.stayed_steps if why == "stays" else tuple(seq for seq, _ in memory.idle)
    last = max((one.seq for one in state.findings if again and not one.refused), default=0)
    return tuple(seq for seq in steps if seq > last) or steps


def _facts(state: State, why: str, steps: tuple[int, ...], answer: str) -> str:
    """Return what is said of steps that brought nothing new, or of an answer that stays."""
    memory = state.scope.memory
    labels = {step.seq: signature_text(step.signature) for step in state.scope.steps}
    labels |= dict(memory.idle)
    counts = Counter(labels[seq] for seq in steps if seq in labels)
    names = "; ".join(f"{name} ({n} times)" if n > 1 else name for name, n in counts.items())
    if why != "stays":
        more = "more " if len(steps) < len(memory.idle) else ""
        return f"{len(steps)} {more}steps brought nothing new: {names}."
    lastly = "" if counts.total() == memory.stayed_times else "lastly "
    to = f", {lastly}to {names}" if names else ""
    return f"The same answer came {memory.stayed_times} times{to}: {answer}."


def patience_of(state: State, thresholds: LoopSettings) -> float:
    """Return how many steps may bring nothing before the agent is told, 0 where it never is."""
    own = state.spec.patience
    return (thresholds.patience if own is None else own) if thresholds.progress_aware else 0.0


def _told(
    state: State,
    thresholds: LoopSettings,
    kind: str,
    message: str,
    *,
    why: str = "",
    again: bool,
    poll: bool = False,
    steps: tuple[int, ...] | None = None,
) -> Intervened:
    memory = state.scope.memory
    owed = memory.debt.steps + memory.debt.shares * patience_of(state, thresholds)
    stays = Stays(text=memory.stayed, times=memory.stayed_times) if why == "stays" else None
    return Intervened(
        intervention=kind,
        key=POLL if poll else why or kind,
        message=message,
        again=again,
        debt=round(max(owed, memory.debt.stays) if stays else owed, 1),
        since_gain=memory.since_gain,
        last_gain=LastGain(seq=memory.gained_seq, text=memory.news) if memory.gained_seq else None,
        steps=_steps(state, why, again=again) if steps is None else steps,
        stays=stays,
    )


def _short(text: str) -> str:
    return in_one_line(text, TEXT_CHARS)
