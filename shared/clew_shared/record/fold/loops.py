"""The fold of what loops are judged by: what came of actions, thoughts and turns, and what the agent was told."""

from __future__ import annotations

from clew_shared.judge import memory
from clew_shared.judge.reading import is_wait, sleeps
from clew_shared.record import events as ev
from clew_shared.record.events import POLL
from clew_shared.record.model import Result
from clew_shared.record.scope import (
    FINDINGS_KEPT,
    STEPS_KEPT,
    Attention,
    CycleStep,
    Finding,
    Tally,
    count,
    kept,
)
from clew_shared.record.state import InFlight, State
from clew_shared.record.worlds import UNKNOWN, by_itself, is_measured, makes_progress
from clew_shared.text.words import action_text
from clew_shared.tools import WRITE_ONLY_TOOLS

# What a refused proposal, or a look at the record, costs in shares of `patience`: as much as a thought.
IDLE_SHARE = 1 / 3
OPEN_MAX = 10  # how many of the last findings can still be open
# The interventions after which the judge waits until as much is owed again.
TOLD = frozenset({"nothing_new", "no_progress", "theme", "repeated_planning", "repetition"})


def loop_detected(state: State, _e: ev.LoopDetected, _seq: int) -> None:
    state.loops.found_total += 1


def intervened(state: State, e: ev.Intervened, seq: int) -> None:
    if e.again:
        state.loops.ignored_interventions += 1
        settle(state, "ignored")
    if e.intervention in TOLD:
        memory.tell(state.loops.scope.memory, warned=e.intervention == "nothing_new")
    attention = state.loops.attention
    if e.intervention in attention.streaks:
        attention.raised[e.intervention] = attention.streaks[e.intervention]
    elif e.intervention == "nothing_new" and attention.iterations_without_facts and e.key != POLL:
        attention.raised["no_progress"] = attention.iterations_without_facts  # one cause, one word
    attention.told_at = attention.steps + (e.intervention == "repetition")  # of the next step
    stays, times = (e.stays.text, e.stays.times) if e.stays else ("", 0)
    found = Finding(seq, attention.steps, stays=stays, times=times)
    state.loops.findings = [*state.loops.findings[1 - FINDINGS_KEPT :], found]


def refused(state: State, e: ev.ActionBlocked, seq: int) -> None:
    """Take in the refusal of a loop, or that a blocked action was proposed again."""
    if e.makes_block or e.counts:
        settle(state, "ignored")
    if e.makes_block:
        found = Finding(seq, state.loops.attention.steps, refused=True)
        state.loops.findings = [*state.loops.findings[1 - FINDINGS_KEPT :], found]
    if not e.done and e.reason != "stopped":  # then the daemon stops, the agent is not idle
        state.loops.attention.steps += 1
        state.loops.attention.firm = True
        memory.take_idle(state.loops.scope.memory, seq, action_text(e.tool, e.args), IDLE_SHARE)


def settle(state: State, came: str, *, moved: bool = False) -> None:
    """Note what came of the last open things told or refused; a change (`moved`) says nothing of one that stays."""
    found = state.loops.findings
    for one in found[-OPEN_MAX:]:
        last_straw = came == "attempt_ended" and one is found[-1] and one.came == "ignored"
        if last_straw or (one.came == "open" and not (moved and one.stays)):
            one.came, one.after = came, state.loops.attention.steps - one.at


def thought(state: State, e: ev.Thought, seq: int) -> None:
    attention = state.loops.attention
    attention.steps += 1
    attention.same_theme = attention.same_theme + 1 if e.theme == attention.theme else 1
    attention.theme = e.theme
    thoughts = attention.thoughts_without_tools + 1
    attention.thoughts_without_tools = 0 if e.has_tool_calls else thoughts
    attention.new_thought = e.new
    memory.take_thought(state.loops.scope.memory, seq, e.words, acts=e.has_tool_calls)
    drop_broken_streaks(attention)


def judge_turn(attention: Attention, e: ev.Reflected) -> None:
    """Count what a turn says of itself, and whether it brought a fact; not one that only waits or polls."""
    attention.turn_steps = attention.steps
    only_waits = attention.waits and not (attention.firm or attention.fresh)
    attention.waits = attention.firm = False
    if only_waits:
        return
    is_stuck = e.assessment in ("stuck", "regressing")
    attention.stuck = attention.stuck + 1 if is_stuck else 0
    if attention.fresh or is_stuck:
        attention.claims = 0
    elif e.assessment == "advancing":
        attention.claims += 1
    turns = attention.iterations_without_facts + 1
    attention.iterations_without_facts = 0 if attention.fresh else turns
    attention.moved = attention.moved and not attention.fresh
    attention.fresh = False


def drop_broken_streaks(attention: Attention) -> None:
    """Forget what was said of a streak that was broken: it was heeded."""
    now = attention.streaks
    attention.raised = {kind: at for kind, at in attention.raised.items() if now[kind] >= at}


def learn(state: State, flight: InFlight, e: ev.ActionFinished, before: str) -> None:
    """Take in what came of an action that began in the world `before`: worlds, tallies, steps, and what it brought."""
    scope, attention, action = state.loops.scope, state.loops.attention, flight.action
    attention.steps += 1
    label = action_text(action.name, action.args)
    if is_wait(action.name, action.args):
        attention.waits = True
        memory.take_wait(scope.memory, action.seq, label)
        return
    after = state.loops.world
    claimed = bool(e.changed) and not is_measured(e.world)
    moved = after != before or claimed
    changed = claimed if e.world == UNKNOWN else moved
    progress = makes_progress(scope, flight.signature, action.name, before, after, e) and not e.idle
    writes = changed or action.name in WRITE_ONLY_TOOLS or flight.signature in scope.writers
    if changed:
        count(scope.writers, flight.signature)
    count(scope.worlds, after)
    polls = scope.memory.waited or sleeps(action.args)
    varies = _tally(state, flight, e, reading=not changed, polls=polls).kind == "varies"
    moves = progress or varies or e.soft
    step = CycleStep(flight.signature, moves, writes and not progress, e.plain, action.seq)
    scope.steps = [*scope.steps[1 - STEPS_KEPT :], step]
    attention.acted = attention.acted or not e.idle
    if e.idle:
        attention.firm = True
        memory.take_idle(scope.memory, action.seq, label, IDLE_SHARE)
        return
    may_change = bool(e.evidence.kind) or varies or polls
    attention.waits = attention.waits or may_change
    attention.firm = attention.firm or not may_change
    attention.moved = attention.moved or moved
    world = after if e.world else ""
    outcome = memory.Outcome(
        action.seq, label, e.result, e.head, moved, world, varies, polls, e.evidence
    )
    if memory.take(scope.memory, outcome) > memory.NEWS or (progress and moved):
        attention.fresh = True
        attention.same_theme = 0
        settle(state, "heeded", moved=moved)


def _tally(
    state: State, flight: InFlight, e: ev.ActionFinished, *, reading: bool, polls: bool
) -> Tally:
    """Count an outcome of this signature in the world that it led to, and return the tally."""
    worlds = kept(state.loops.scope.tallies, flight.signature, {})
    tally = kept(worlds, state.loops.world, Tally())
    first, success = not tally.outcome, e.result == Result.SUCCESS
    tally.steady = first or tally.outcome == e.outcome
    if by_itself(tally, e) or ((success or e.soft) and polls):
        tally.kind = "varies"
    elif e.soft or polls:  # one that waits before it tries again may well be right to
        tally.kind = "temporary"
    elif first or tally.kind == "temporary":
        tally.kind = "read" if reading and success else ""
    count(tally.counts, e.outcome)
    tally.outcome, tally.result, tally.head = e.outcome, e.result, e.head
    tally.seq, tally.raw = flight.action.seq, e.evidence.raw
    tally.plain = tally.plain and e.plain
    return tally
