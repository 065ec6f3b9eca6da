"""The rules that speak: when the agent is told, and what (docs/loops.md, Interventions).

An intervention refuses nothing. One that is ignored is sent again three steps later; the fold counts those.
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
    from clew_shared.config.tables import LoopSettings
    from clew_shared.gate.table import AgentCalls
    from clew_shared.record.state import State

BRING_NEWS = "Do something that can bring something new"  # begins the advice after the facts
IGNORED_AFTER_STEPS = 3
FAILURE_CHARS, TEXT_CHARS = 300, 120


def review(
    state: State, thresholds: LoopSettings, calls: AgentCalls = PROTOCOL
) -> Intervened | None:
    """Return the intervention that is due now, if any."""
    said = {
        kind: _told(state, thresholds, kind, message, again=kind in state.loops.attention.raised)
        for kind, message in _streaks(state, thresholds, calls).items()
        if _is_due(state, kind)
    }
    thoughts = said.get("theme") or said.get("repeated_planning")
    turns = said.get("no_progress") or said.get("stuck")
    return thoughts or nothing_new(state, thresholds, calls) or turns


def _streaks(state: State, thresholds: LoopSettings, calls: AgentCalls) -> dict[str, str]:
    """Return what is said of each streak that is long enough to be spoken of."""
    at, said = state.loops.attention, {}
    same, planned, turns = at.same_theme, at.thoughts_without_tools, at.iterations_without_facts
    if same >= thresholds.theme_window and at.theme != GENERAL and not _only_looks(state):
        said["theme"] = (
            f"Your last {same} thoughts were all {at.theme.replace('_', ' ')} and nothing new came of them. "
            f"You are repeating yourself: take one concrete action now, or {calls.finish}."
        )
    if planned >= thresholds.thoughts_without_tools * (2 if at.new_thought else 1):
        said["repeated_planning"] = (
            f"{planned} thoughts in a row without a tool call. Act now: call one tool, or {calls.finish}."
        )
    if turns >= thresholds.iterations_without_facts and not at.fresh:  # else counted at its end
        claimed = "You call it advancing, but " if at.claims else ""
        back = "the changes led back to states of the files that were there before"
        said["no_progress"] = (
            f"{claimed}{turns} iterations brought nothing new: {back if at.moved else 'no file changed'}, and no new "
            "answer came. Stop, say what you know, and do one different, concrete action that you have not tried; "
            f"if the work is done, {calls.finish}."
        )
    if at.stuck >= thresholds.stuck_limit:
        failed = in_one_line(state.subtask.last_failure, FAILURE_CHARS) if state.subtask else ""
        said["stuck"] = (
            f"You have called yourself stuck {at.stuck} times in a row. To recover: name what you tried and why it "
            "failed, then do one different, concrete action."
            f"{failed and f' Last failure: {failed}.'} Otherwise {calls.failed}."
        )
    return said


def _only_looks(state: State) -> bool:
    """Return whether all that brought nothing was to look at what may change by itself."""
    return state.loops.scope.memory.looks > 0 and not state.loops.scope.memory.firm


def _is_due(state: State, kind: str) -> bool:
    """Return whether a streak is to be spoken of now: it has grown since the last time, or no other one was.

    Thoughts are spoken of once, though two streaks may count them.
    """
    attention = state.loops.attention
    if kind in attention.raised:
        return attention.streaks[kind] - attention.raised[kind] >= IGNORED_AFTER_STEPS
    others = {"theme": "repeated_planning", "repeated_planning": "theme"}.get(kind)
    steps = attention.steps - attention.told_at
    return others not in attention.raised or steps >= IGNORED_AFTER_STEPS


def nothing_new(state: State, thresholds: LoopSettings, calls: AgentCalls) -> Intervened | None:
    """Notice that steps which brought nothing new add up to `patience`, or that one answer stays."""
    memory, patience = state.loops.scope.memory, patience_of(state, thresholds)
    why = due(memory, patience, thresholds.repeat_limit) if patience else ""
    before = [one for one in state.loops.findings if one.stays and one.seq > state.attempt.seq]
    told = [one.times for one in before if one.stays == memory.stay.text]
    if not why or (why == "stays" and told and memory.stay.times < told[-1] + told[0]):
        return None
    warned = memory.warned if why == "debt" else told
    again = bool(memory.firm and warned)
    steps = _steps(state, why, again=again)
    answer = f'"{in_one_line(memory.stay.text, TEXT_CHARS)}"' if memory.stay.text else "(no output)"
    last = f' The last new thing: "{in_one_line(memory.news, TEXT_CHARS)}".' if memory.news else ""
    message = f"{_facts(state, why, steps, answer)}{last} {BRING_NEWS}, or, if the work is done, {calls.finish}."
    if _only_looks(state):
        looks = memory.stay.times if why == "stays" else memory.looks
        what = f"Still the same after {looks} looks ({answer}):"
        if memory.stay.times < looks:  # there were others
            what = f"{looks} looks brought nothing new (the last: {answer}):"
        message = f"{what} wait longer between looks, or say what you wait for; if the work is done, {calls.finish}."
    return _told(state, thresholds, "nothing_new", message, why, again=again)


def _steps(state: State, why: str, *, again: bool) -> tuple[int, ...]:
    """Return the steps that a word is about; of one that is said again those since the word before."""
    memory = state.loops.scope.memory
    steps = memory.stay.steps if why == "stays" else tuple(seq for seq, _ in memory.idle)
    last = max((one.seq for one in state.loops.findings if again and not one.refused), default=0)
    return tuple(seq for seq in steps if seq > last) or steps


def _facts(state: State, why: str, steps: tuple[int, ...], answer: str) -> str:
    """Return what is said of steps that brought nothing new, or of an answer that stays."""
    memory = state.loops.scope.memory
    labels = {step.seq: signature_text(step.signature) for step in state.loops.scope.steps}
    labels |= dict(memory.idle)
    counts = Counter(labels[seq] for seq in steps if seq in labels)
    names = "; ".join(f"{name} ({n} times)" if n > 1 else name for name, n in counts.items())
    if why != "stays":
        more = "more " if len(steps) < len(memory.idle) else ""
        what = f"{len(steps)} {more}step{'s' if len(steps) > 1 else ''} brought nothing new"
        before = memory.debt.steps > len(steps) and not more  # a step costs at most one
        return f"{what}{', and those before little' if before else ''}: {names}."
    lastly = "" if counts.total() == memory.stay.times else "lastly "
    to = f", {lastly}to {names}" if names else ""
    return f"The same answer came {memory.stay.times} times{to}: {answer}."


def patience_of(state: State, thresholds: LoopSettings) -> float:
    """Return how many steps may bring nothing before the agent is told, 0 where it never is."""
    own = state.spec.patience
    return (thresholds.patience if own is None else own) if thresholds.progress_aware else 0.0


def _told(
    state: State, thresholds: LoopSettings, kind: str, message: str, why: str = "", *, again: bool
) -> Intervened:
    memory = state.loops.scope.memory
    owed = memory.debt.steps + memory.debt.shares * patience_of(state, thresholds)
    stays = Stays(text=memory.stay.text, times=memory.stay.times) if why == "stays" else None
    return Intervened(
        intervention=kind,
        key=POLL if why and _only_looks(state) else why or kind,
        message=message,
        again=again,
        debt=round(max(owed, memory.debt.stays) if stays else owed, 1),
        since_gain=memory.since_gain,
        last_gain=LastGain(seq=memory.gained_seq, text=memory.news) if memory.gained_seq else None,
        steps=_steps(state, why, again=again),
        stays=stays,
    )
