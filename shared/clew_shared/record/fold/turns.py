"""The fold of turns and checks: what turns cost and what was found in them, what checks, snapshots and proofs said."""

from __future__ import annotations

from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.fold.loops import drop_broken_streaks, judge_turn
from clew_shared.record.model import LlmCost
from clew_shared.record.state import (
    CHECK_CHARS,
    INSIGHTS_KEPT,
    CheckBefore,
    CheckResult,
    ProbeSeen,
    ProofState,
    SnapshotState,
    State,
    SuggestedCheck,
    taken,
)
from clew_shared.record.worlds import is_measured
from clew_shared.text.shorten import both_ends

# By how much an undo changes the number of those in force: no person has asked for that of an attempt.
_COUNTS = {"undo": -1, "attempt": 0}


def reflected(state: State, e: ev.Reflected, _seq: int) -> None:
    """Count a turn and its cost; one that a crash cut off has its cost, and goes on as the next one."""
    if not e.unfinished:
        state.iteration = max(state.iteration + 1, e.iteration)
        state.attempts.messages = 0
        judge_turn(state.loops.attention, e)
    drop_broken_streaks(state.loops.attention)
    _collect_insights(state, e)
    _charge(state, e)
    lived_s = max(0.0, e.at - state.worker_since) if state.working else 0.0
    state.attempts.active_at_turn_s = state.cost.active_s + lived_s
    if state.attempts.turn_at != state.place:  # this turn was one of the subtask before
        state.attempt.from_iteration = state.iteration
    state.attempts.turn_before = state.attempts.turn_at
    state.attempts.turn_at = state.place
    state.guidance.feedback_untold.clear()


def _collect_insights(state: State, e: ev.Reflected) -> None:
    """Add the most relevant findings in the last turn's results to the subtask that the results belong to."""
    subtask = state.subtask_at(*state.attempts.turn_at)
    if subtask is None or state.attempts.turn_before != state.attempts.turn_at:
        return
    found = [h["insights"] for h in e.hindsight if h.get("relevance") == "high"]
    subtask.insights += [insight for insight in found if insight]
    del subtask.insights[:-INSIGHTS_KEPT]


def _charge(state: State, e: ev.Reflected) -> None:
    """Add the cost of the turn's LLM call to the goal's, and to that of the subtask that it was made for."""
    subtask = state.subtask_at(*state.attempts.turn_at)
    called = bool(e.tokens or e.llm_s or e.prompt)  # a runbook's turn made no call
    of_agent = state.agent_costs.setdefault(state.agent, LlmCost())
    for cost in (state.cost, of_agent, *([subtask.cost] if subtask else [])):
        cost.calls += called
        for name in ("tokens", "tokens_in", "tokens_out", "tokens_cached", "llm_s"):
            setattr(cost, name, getattr(cost, name) + getattr(e, name))
    state.guidance.prompt = e.prompt or state.guidance.prompt


def probes_seen(state: State, e: ev.ProbesSeen, _seq: int) -> None:
    for name, passed in e.probes.items():
        see_probe(state, name, passed, world=e.world)


def see_probe(state: State, name: str, passed: bool, *, world: str = "") -> None:
    """Remember what a probe or a check has found, and when; `world` is as it was measured then."""
    seen = ProbeSeen(
        passed, world if is_measured(world) else state.loops.world, state.proofs.last_action
    )
    state.last_probe_state[name], state.proofs.probes_seen[name] = passed, seen


def check_proposed(state: State, e: ev.CheckProposed, _seq: int) -> None:
    state.proofs.suggested[e.name] = SuggestedCheck(e.cmd)


def check_started(state: State, e: ev.CheckStarted, _seq: int) -> None:
    if found := state.proofs.suggested.get(e.name):
        found.started = True


def check_finished(state: State, e: ev.CheckFinished, seq: int) -> None:
    if e.suggested:
        if found := state.proofs.suggested.get(e.name):
            found.result = CheckResult(e.passed, both_ends(e.output, CHECK_CHARS))
        return
    before = state.proofs.checks.get(e.name)
    if before is None or before.passed != e.passed:
        state.loops.attention.fresh = True
    state.proofs.checks[e.name] = CheckResult(e.passed, both_ends(e.output, CHECK_CHARS), seq)
    see_probe(state, e.name, e.passed)


def checked_before(state: State, e: ev.CheckedBefore, _seq: int) -> None:
    state.proofs.before[e.name] = taken(CheckBefore, e)
    if e.passed or e.exit_code is not None:
        see_probe(state, e.name, e.passed)


def snapshot_taken(state: State, e: snap.SnapshotTaken, seq: int) -> None:
    known = state.snapshots
    if not known.first:
        known.first, known.first_at = e.tree, e.at
    known.last, known.last_seq, known.missing = e.tree, seq, ""
    known.taken += 1
    known.bytes += e.bytes
    known.changed, known.left_out = e.changed, e.left_out_total


def snapshots_missing(state: State, e: snap.SnapshotsMissing, _seq: int) -> None:
    if e.removed:
        state.snapshots = SnapshotState()
    state.snapshots.missing = e.reason


def undo_started(state: State, e: snap.UndoStarted, seq: int) -> None:
    state.snapshots.undoing, state.snapshots.counts = seq, _COUNTS.get(e.scope, 1)


def undo_finished(state: State, e: snap.UndoFinished, _seq: int) -> None:
    known = state.snapshots
    known.undoing = 0
    if e.restored:
        known.undone = max(0, known.undone + known.counts)


def proof_made(state: State, e: snap.ProofMade, seq: int) -> None:
    before = state.proofs.made
    same = before is not None and (before.world, before.label) == (e.world, e.label)
    refused = before.refused if before and same else 0
    state.proofs.made = taken(ProofState, e, seq=seq, refused=refused, reason="")


def proof_refused(state: State, e: snap.ProofRefused, _seq: int) -> None:
    if state.proofs.made:
        state.proofs.made.refused += 1
        state.proofs.made.asked, state.proofs.made.reason = e.asked, e.reason


def proof_accepted(state: State, e: snap.ProofAccepted, _seq: int) -> None:
    state.proofs.base = e.tree
    if state.proofs.made:
        state.proofs.made.accepted, state.proofs.made.asked = e.by, False
