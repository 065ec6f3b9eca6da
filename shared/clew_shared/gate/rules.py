"""The loop rules (docs/loops.md): those that refuse, in the order in which they are asked, then those that speak."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from clew_shared.config.tables import LoopSettings
from clew_shared.judge.memory import due
from clew_shared.judge.reading import pause
from clew_shared.record.events import POLL, Intervened, LastGain, Stays
from clew_shared.record.scope import EVERYWHERE, CycleStep
from clew_shared.record.state import State
from clew_shared.text.shorten import in_one_line
from clew_shared.text.words import RESULTS, action_text, ordinal, signature_text, times

WHAT_ELSE = "Do something else:"  # begins the advice in a refusal
NAME_CHARS = 80


@dataclass(frozen=True, slots=True)
class AgentCalls:
    """The calls by which an agent reports that its work is done, or cannot be done, in its own terms."""

    done: str = "call complete_subtask"
    failed: str = "complete_subtask with success=false"
    finish: str = "call finish"


# The calls of the worker protocol; the tools of the built-in agents have the same names.
PROTOCOL = AgentCalls()


@dataclass(frozen=True, slots=True)
class KnownOutcome:
    """An outcome judged after the fact; `kind` as in Tally or "", `idle`: a write that changed nothing new."""

    outcome: str
    world: str
    progress: bool
    kind: str = ""
    idle: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """An action that the agent wants to do, or reports as done; `calls` are what it can do instead."""

    tool: str
    args: dict[str, Any]
    signature: str
    known: KnownOutcome | None = None
    calls: AgentCalls = PROTOCOL


@dataclass(frozen=True, slots=True)
class Nudge:
    """The action may run, with advice; `attempt` counts from 1, `steps` are the actions that it repeats."""

    message: str
    attempt: int = 0
    evidence: str = ""
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal(Nudge):
    """The action may not run, and why; `loop`: found now, so that it is blocked, `everywhere`: in every world."""

    reason: str = ""
    loop: bool = True
    everywhere: bool = False


def judge(state: State, proposal: Proposal, limits: LoopSettings, *, rerun: bool) -> Nudge | None:
    """Return whether a proposal may run: a Refusal, a Nudge (it may, with advice), or None (it may).

    The crash rule alone judges waits, which are no loop, and what runs again at a person's word.
    """
    found = blocked(state, proposal) or crash(state, proposal, limits)
    is_new = proposal.signature not in state.loops.scope.loop_counts
    if found or rerun or is_new or pause(proposal.tool, proposal.args) == "only":
        return found
    if proposal.known and proposal.known.progress and limits.progress_aware:
        return None
    repeated = repetition(state, proposal, limits)
    if isinstance(repeated, Refusal):
        return repeated
    return cycle(state, proposal, limits) or repeated


def blocked(state: State, proposal: Proposal) -> Refusal | None:
    worlds = state.loops.scope.blocks.get(proposal.signature, {})
    kind = worlds.get(EVERYWHERE) or worlds.get(state.loops.world)
    if kind is None:
        return None
    why = f"This action is blocked ({kind}): it was refused before and nothing has changed since."
    message = f"{why} {last_time(state, proposal)} {what_else(state, proposal.calls)}"
    return Refusal(message, reason="blocked_action", loop=False)


def crash(state: State, proposal: Proposal, limits: LoopSettings) -> Refusal | None:
    deaths = state.loops.scope.crashes.get(proposal.signature, 0)
    if deaths < limits.crash_limit:
        return None
    why = state.loops.scope.died.get(proposal.signature, "")
    how = f" (the last time: {why})" if why else ""
    message = (
        f"Refused: the worker died {deaths} times while this action was running{how}. What it did is unknown. "
        f"Look at the workspace first, then find a way that needs fewer resources. {what_else(state, proposal.calls)}"
    )
    evidence = f"it was running when the worker died, {times(deaths)}"
    return Refusal(message, deaths + 1, evidence, reason="crash", everywhere=True)


def repetition(state: State, proposal: Proposal, limits: LoopSettings) -> Nudge | None:
    """Refuse the same action, in the same world, with the same outcome each time, in a row or not.

    A repeated read is allowed once more, with a warning; a temporary fault gets `transient_limit` attempts;
    varying answers are no loop.
    """
    own = limits.tools.get(proposal.tool)
    limit = (own.repeat_limit if own else None) or limits.repeat_limit
    if not limits.progress_aware:
        attempt = state.loops.scope.loop_counts.get(proposal.signature, 0) + 1
        return _repeats(state, proposal, attempt, "", refuse=True) if attempt >= limit else None
    known = proposal.known
    world = known.world if known else state.loops.world
    tally = state.loops.scope.tallies.get(proposal.signature, {}).get(world)
    if tally is None:
        return None
    kind = known.kind if known and known.kind else tally.kind
    attempt = tally.counts.get(known.outcome if known else tally.outcome, 0) + 1
    if kind == "varies":
        return None
    if kind == "temporary":
        limit = max(limit, limits.transient_limit)
    if attempt < limit + (not known and not tally.steady):  # else its outcome is less certain
        return None
    reads_on = kind == "read" and not tally.plain and attempt == limit
    return _repeats(state, proposal, attempt, tally.result, refuse=not reads_on)


def _repeats(state: State, proposal: Proposal, attempt: int, result: str, *, refuse: bool) -> Nudge:
    same = ", with the same files" if result else ""  # plain counts know no files
    came = f"{same}; each time it {RESULTS.get(result, result)}" if result else ""
    evidence = f"the same action for the {ordinal(attempt)} time{came}"
    steps = tuple(one.seq for one in state.loops.scope.steps if one.signature == proposal.signature)
    else_ = what_else(state, proposal.calls)
    if refuse:
        head = f"Refused, a loop: this would be attempt {attempt} of the very same action{same}."
        message = f"{head} {last_time(state, proposal)} {else_}"
        return Refusal(message, attempt, evidence, steps, "repetition", everywhere=not result)
    done = f"You have now done `{action_text(proposal.tool, proposal.args)}` {attempt} times{same}"
    message = f"{done}: the answer is the same. If it stays so, do something else. {else_}"
    return Nudge(message, attempt, evidence, steps)


def cycle(state: State, proposal: Proposal, limits: LoopSettings) -> Refusal | None:
    """Refuse the action that would complete one more identical round of p actions without progress; waits are no part.

    It is the second round with a write that changed nothing or led back, or with plain counts alone; else the third.
    """
    for period in range(2, limits.max_period + 1):
        for rounds in (2, 3):
            steps = state.loops.scope.steps[1 - rounds * period :]
            names = [step.signature for step in steps] + [proposal.signature]
            same = all(one == names[i % period] for i, one in enumerate(names))
            # one action over and over is for the repetition rule
            if len(names) < rounds * period or not same or len(set(names)) == 1:
                break  # three rounds need two
            again = steps[period:]  # all but the first round, which may well be progress
            plain = all(step.plain for step in steps)
            idle = any(step.idle for step in again) or bool(proposal.known and proposal.known.idle)
            is_certain = not any(step.progress for step in again) and (rounds == 3 or idle or plain)
            if is_certain or not limits.progress_aware:
                return _round(state, proposal, steps, rounds)
    return None


def _round(state: State, proposal: Proposal, steps: list[CycleStep], rounds: int) -> Refusal:
    period = (len(steps) + 1) // rounds
    ring = [step.signature for step in steps[1 - period :]] + [proposal.signature]
    names = " → ".join(signature_text(name, NAME_CHARS) for name in ring)
    evidence = f"round {rounds} of the same {period} actions, which brought nothing new: {names}"
    message = (
        f"Refused, a loop: this would close round {rounds} of the same {period} actions in turn, and nothing new "
        f"came of it. {last_time(state, proposal, in_cycle=not proposal.known)} {what_else(state, proposal.calls)}"
    )
    kind = "alternation" if period == 2 else "cycle"
    return Refusal(message, rounds, evidence, tuple(step.seq for step in steps), kind)


def last_time(state: State, proposal: Proposal, *, in_cycle: bool = False) -> str:
    """Return how the action went the last time, in this world if it was done in it; `in_cycle`: others came between."""
    worlds = state.loops.scope.tallies.get(proposal.signature, {})
    tally = worlds.get(state.loops.world) or state.loops.scope.last(proposal.signature)
    if tally is None:
        died = state.loops.scope.died.get(proposal.signature)
        return f"The last time it was cut off: {died}." if died else ""
    if tally.result != "success":
        output = f' with: "{tally.head}"' if tally.head else ""
        return f"The last time it ended in {tally.result}{output}."
    output = f' and said: "{tally.head}"' if tally.head else ""
    if in_cycle and state.loops.world not in worlds:
        return f"It already succeeded{output}, and the workspace has changed since: this goes back and forth."
    if tally.kind == "read":
        return (
            f"It already succeeded{output}. No file has changed since, so the answer is the same."
        )
    return f"It already succeeded{output}. Its effect is already there; doing it again changes nothing."


def what_else(state: State, calls: AgentCalls) -> str:
    name = f' "{state.subtask.description}"' if state.subtask else ""
    return (
        f"{WHAT_ELSE} if the subtask{name} is done, {calls.done}; if the whole goal is done, {calls.finish}; "
        "otherwise try a different action (read the output above, change a file, another command), "
        f"or {calls.failed} to say that this way does not work and a replan is needed."
    )


BRING_NEWS = "Do something that can bring something new"  # begins the advice after the facts
IGNORED_AFTER_STEPS = 3
FAILURE_CHARS, TEXT_CHARS = 300, 120


def review(state: State, limits: LoopSettings, calls: AgentCalls = PROTOCOL) -> Intervened | None:
    streaks = _streaks(state, limits, calls)
    said = {
        kind: _told(state, limits, kind, message, again=kind in state.loops.attention.raised)
        for kind, message in streaks.items()
        if _is_due(state, kind)
    }
    thoughts = said.get("theme") or said.get("repeated_planning")
    turns = said.get("no_progress") or said.get("stuck")
    news = None if "same_error" in streaks else nothing_new(state, limits, calls)
    return thoughts or said.get("same_error") or news or turns


def _streaks(state: State, limits: LoopSettings, calls: AgentCalls) -> dict[str, str]:
    """Return what is said of each streak that is long enough to be spoken of."""
    at, said = state.loops.attention, {}
    same, planned, turns = at.same_theme, at.thoughts_without_tools, at.iterations_without_facts
    if same >= limits.theme_window and at.theme != GENERAL and not _only_looks(state):
        said["theme"] = (
            f"Your last {same} thoughts were all {at.theme.replace('_', ' ')} and nothing new came of them. "
            f"You are repeating yourself: take one concrete action now, or {calls.finish}."
        )
    if planned >= limits.thoughts_without_tools:
        said["repeated_planning"] = (
            f"{planned} thoughts in a row without a tool call. Act now: call one tool, or {calls.finish}."
        )
    if turns >= limits.iterations_without_facts and not at.fresh:  # else counted at its end
        back = "the changes led back to states of the files that were there before"
        said["no_progress"] = (
            f"{turns} iterations brought nothing new: {back if at.moved else 'no file changed'}, and no new "
            "answer came. Stop, say what you know, and do one different, concrete action that you have not tried; "
            f"if the work is done, {calls.finish}."
        )
    if at.same_error >= limits.same_error_limit:
        said["same_error"] = (
            f"{at.same_error} times in a row the same error, whatever the arguments. Find its cause before you try "
            f"again, look elsewhere, or {calls.failed}."
        )
    if at.stuck >= limits.stuck_limit:
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
    """Return whether a streak is to be spoken of now; thoughts are, once, though two streaks may count them."""
    attention = state.loops.attention
    if kind in attention.raised:
        return attention.streaks[kind] - attention.raised[kind] >= IGNORED_AFTER_STEPS
    others = {"theme": "repeated_planning", "repeated_planning": "theme"}.get(kind)
    steps = attention.steps - attention.told_at
    return others not in attention.raised or steps >= IGNORED_AFTER_STEPS


def nothing_new(state: State, limits: LoopSettings, calls: AgentCalls) -> Intervened | None:
    """Notice that steps which brought nothing new add up to `patience`, or that one answer stays."""
    memory, patience = state.loops.scope.memory, patience_of(state, limits)
    why = due(memory, patience, limits.repeat_limit) if patience else ""
    since, found = state.attempt.seq, state.loops.findings if why else ()
    before = [one for one in found if one.stays and one.seq > since]
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
        wait = "wait longer between looks, or say what you wait for"
        what = f"{looks} looks brought nothing new (the last: {answer})"
        message = f"{what}: {wait}; if the work is done, {calls.finish}."
    return _told(state, limits, "nothing_new", message, why, again=again)


def _steps(state: State, why: str, *, again: bool) -> tuple[int, ...]:
    """Return the steps that a word is about; of one that is said again those since the word before."""
    memory = state.loops.scope.memory
    steps = memory.stay.steps if why == "stays" else tuple(seq for seq, _ in memory.idle)
    last = max((one.seq for one in state.loops.findings if again and not one.refused), default=0)
    return tuple(seq for seq in steps if seq > last) or steps


def _facts(state: State, why: str, steps: tuple[int, ...], answer: str) -> str:
    memory = state.loops.scope.memory
    labels = {step.seq: signature_text(step.signature) for step in state.loops.scope.steps}
    labels |= dict(memory.idle)
    counts = Counter(labels[seq] for seq in steps if seq in labels)
    names = "; ".join(f"{name} ({n} times)" if n > 1 else name for name, n in counts.items())
    if why != "stays":
        return f"{len(steps)} step{'s' if len(steps) > 1 else ''} brought nothing new: {names}."
    to = f", lastly to {names}" if names else ""
    return f"The same answer came {memory.stay.times} times{to}: {answer}."


def patience_of(state: State, limits: LoopSettings) -> float:
    """Return how many steps may bring nothing before the agent is told, 0 where it never is."""
    own = state.spec.patience
    return (limits.patience if own is None else own) if limits.progress_aware else 0.0


def _told(
    state: State, limits: LoopSettings, kind: str, message: str, why: str = "", *, again: bool
) -> Intervened:
    memory = state.loops.scope.memory
    owed = memory.debt.steps + memory.debt.shares * patience_of(state, limits)
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


GENERAL = "general"  # the theme of a thought in which no theme's words occur
_THEMES = {  # the words of each theme in all their forms; where several match, the first theme wins
    "planning": r"plan(?:s|ned|ning)?|strateg(?:y|ies)|approach(?:es|ed|ing)?|need(?:s|ed|ing)? to",
    "synthesis": (
        r"synthesi(?:s|[sz](?:e|es|ed|ing))|combin(?:e|es|ed|ing)|overall"
        r"|summar(?:y|ies|i[sz](?:e|es|ed|ing))"
    ),
    "search_intent": r"search(?:es|ed|ing)?|find(?:s|ing)?|look(?:s|ed|ing)? for",
    "read_intent": r"read(?:s|ing)?|articles?|pages?",
}
_PATTERNS = {
    name: re.compile(rf"(?<![^\W\d_])(?:{words})(?![^\W\d_])") for name, words in _THEMES.items()
}


def theme(text: str) -> str:
    """Return the theme of a thought by whole words, so that a person can check it, or GENERAL."""
    said = " ".join(text.casefold().split())
    return next((name for name, words in _PATTERNS.items() if words.search(said)), GENERAL)
