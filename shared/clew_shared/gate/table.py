"""The rules that refuse: an action that can bring nothing is not done again (docs/loops.md, Refusals).

They are asked in the order of this file. Blocking is for repetition: an action that is new in its scope is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew_shared.judge.reading import is_wait
from clew_shared.record.scope import EVERYWHERE
from clew_shared.text.words import RESULTS, action_text, ordinal, signature_text, times

if TYPE_CHECKING:
    from clew_shared.config.tables import LoopSettings
    from clew_shared.record.scope import CycleStep
    from clew_shared.record.state import State

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
    """The outcome of a proposal that is judged after the fact (`record`).

    `kind` is how a repeat is judged, as in `Tally`, "" where this outcome does not say; `idle` is a write that changed
    nothing or led back to an earlier world.
    """

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
    """The action may run, with the advice that nothing new is to be expected.

    `attempt` counts from 1; `steps` are the numbers of the actions that it repeats.
    """

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


def judge(
    state: State, proposal: Proposal, thresholds: LoopSettings, *, rerun: bool = False
) -> Refusal | Nudge | None:
    """Return whether a proposal may run: a Refusal, a Nudge (it may, with advice), or None (it may).

    Waits are judged by the crash rule alone: letting time pass is not a loop. So is what runs again at a person's word.
    """
    found = blocked(state, proposal) or crash(state, proposal, thresholds)
    if found or rerun or is_wait(proposal.tool, proposal.args):
        return found
    if proposal.signature not in state.loops.scope.loop_counts:
        return None
    if proposal.known and proposal.known.progress and thresholds.progress_aware:
        return None
    repeated = repetition(state, proposal, thresholds)
    if isinstance(repeated, Refusal):
        return repeated
    return cycle(state, proposal, thresholds) or repeated


def blocked(state: State, proposal: Proposal) -> Refusal | None:
    """Refuse an action that is blocked in this world."""
    worlds = state.loops.scope.blocks.get(proposal.signature, {})
    kind = worlds.get(EVERYWHERE) or worlds.get(state.loops.world)
    if kind is None:
        return None
    why = f"This action is blocked ({kind}): it was refused before and nothing has changed since."
    message = f"{why} {last_time(state, proposal)} {what_else(state, proposal.calls)}"
    return Refusal(message, reason="blocked_action", loop=False)


def crash(state: State, proposal: Proposal, thresholds: LoopSettings) -> Refusal | None:
    """Refuse an action that was in flight when the worker died, `crash_limit` times."""
    deaths = state.loops.scope.crashes.get(proposal.signature, 0)
    if deaths < thresholds.crash_limit:
        return None
    why = state.loops.scope.died.get(proposal.signature, "")
    how = f" (the last time: {why})" if why else ""
    message = (
        f"Refused: the worker died {deaths} times while this action was running{how}. What it did is unknown. "
        f"Look at the workspace first, then find a way that needs fewer resources. {what_else(state, proposal.calls)}"
    )
    evidence = f"it was running when the worker died, {times(deaths)}"
    return Refusal(message, deaths + 1, evidence, reason="crash", everywhere=True)


def repetition(
    state: State, proposal: Proposal, thresholds: LoopSettings
) -> Refusal | Nudge | None:
    """Refuse the same action, in the same world, with the same outcome each time.

    Attempts are counted in the scope, not only in a row. Reading (success, nothing changed) passes once more, with an
    intervention; a temporary fault has `transient_limit` attempts. What may be answered differently by itself is for
    `words.nothing_new`: that it moves may be what is watched.
    """
    own = thresholds.tools.get(proposal.tool)
    limit = (own.repeat_limit if own else None) or thresholds.repeat_limit
    if not thresholds.progress_aware:
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
        limit = max(limit, thresholds.transient_limit)
    if attempt < limit + (not known and not tally.steady):  # else its outcome is less certain
        return None
    reads_on = kind == "read" and not tally.plain and attempt == limit
    return _repeats(state, proposal, attempt, tally.result, refuse=not reads_on)


def _repeats(
    state: State, proposal: Proposal, attempt: int, result: str, *, refuse: bool
) -> Refusal | Nudge:
    same = ", with the same files" if result else ""  # plain counts know no files
    came = f"{same}; each time it {RESULTS.get(result, result)}" if result else ""
    evidence = f"the same action for the {ordinal(attempt)} time{came}"
    steps = tuple(one.seq for one in state.loops.scope.steps if one.signature == proposal.signature)
    else_ = what_else(state, proposal.calls)
    if refuse:
        message = (
            f"Refused, a loop: this would be attempt {attempt} of the very same action{same}. "
            f"{last_time(state, proposal)} {else_}"
        )
        return Refusal(message, attempt, evidence, steps, "repetition", everywhere=not result)
    message = (
        f"You have now done `{action_text(proposal.tool, proposal.args)}` {attempt} times{same}: the answer is the "
        "same. "
        f"If it stays so, do something else. {else_}"
    )
    return Nudge(message, attempt, evidence, steps)


def cycle(state: State, proposal: Proposal, thresholds: LoopSettings) -> Refusal | None:
    """Refuse the action that would complete one more identical round of p actions without progress.

    The second round is refused if it contains a write that changed nothing or led back to an earlier world, or if
    there are only plain counts to go by; otherwise the third. Waits are not part of a round.
    """
    for period in range(2, thresholds.max_period + 1):
        for rounds in (2, 3):
            steps = state.loops.scope.steps[1 - rounds * period :]
            if len(steps) < rounds * period - 1 or not _are_rounds(steps, proposal, period):
                break  # three rounds need two
            if _is_certain(steps, proposal, period, rounds, thresholds):
                return _round(state, proposal, steps, period, rounds)
    return None


def _are_rounds(steps: list[CycleStep], proposal: Proposal, period: int) -> bool:
    names = [step.signature for step in steps] + [proposal.signature]
    # one action over and over is for the repetition rule
    return len(set(names)) > 1 and all(one == names[i % period] for i, one in enumerate(names))


def _is_certain(
    steps: list[CycleStep], proposal: Proposal, period: int, rounds: int, thresholds: LoopSettings
) -> bool:
    if not thresholds.progress_aware:
        return True
    again = steps[period:]  # all but the first round, which may well be progress
    if any(step.progress for step in again):
        return False
    idle = any(step.idle for step in again) or bool(proposal.known and proposal.known.idle)
    return rounds == 3 or idle or all(step.plain for step in steps)


def _round(
    state: State, proposal: Proposal, steps: list[CycleStep], period: int, rounds: int
) -> Refusal:
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
    tally = worlds.get(state.loops.world) or max(worlds.values(), key=lambda t: t.seq, default=None)
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
    """Return what to do instead."""
    name = f' "{state.subtask.description}"' if state.subtask else ""
    return (
        f"{WHAT_ELSE} if the subtask{name} is done, {calls.done}; if the whole goal is done, {calls.finish}; "
        "otherwise try a different action (read the output above, change a file, another command), "
        f"or {calls.failed} to say that this way does not work and a replan is needed."
    )
