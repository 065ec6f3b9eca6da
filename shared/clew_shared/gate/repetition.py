"""The `repetition` rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.gate.messages import last_time, what_else
from clew_shared.gate.verdict import KnownOutcome, Nudge, Proposal, Refusal, Thresholds
from clew_shared.text.words import RESULTS, ordinal

if TYPE_CHECKING:
    from clew_shared.record.state import State


def repetition(state: State, proposal: Proposal, thresholds: Thresholds) -> Refusal | Nudge | None:
    """Refuse the same action, in the same world, with the same outcome each time.

    Attempts are counted per signature, world and outcome in the scope, not only in a row. Reading (success, nothing
    changed) passes once more, with an intervention. A temporary fault has `transient_limit` attempts. What may be
    answered differently by itself is told of then, and never refused: that it moves may be what is watched.

    Stops: `pytest` three times without an edit in between, the identical `write_file` again and again.
    Must pass: `pytest` between different edits (another world each time), a poll, a measurement that is repeated, a
    flaky test that is run a few times more.
    """
    if not thresholds.progress_aware:
        return _plain(state, proposal, thresholds)
    known = proposal.known
    world = known.world if known else state.world
    tally = state.scope.tallies.get(proposal.signature, {}).get(world)
    if tally is None:
        return None
    kind = (_kind_of(known) if known else "") or tally.kind
    attempt = tally.counts.get(known.outcome if known else tally.outcome, 0) + 1
    limit = attempts_allowed(proposal.tool, thresholds, soft=kind in ("varies", "temporary"))
    came = RESULTS.get(tally.result, tally.result)
    evidence = f"the same action for the {ordinal(attempt)} time, with nothing changed; each time it {came}"
    if kind == "varies":
        told = attempt % limit == 0
        return Nudge(_nothing_new(state, proposal, attempt), attempt, evidence) if told else None
    if attempt < limit + (not known and not tally.steady):  # else its outcome is less certain
        return None
    if kind == "read" and not tally.plain and attempt == limit:
        return Nudge(_nothing_new(state, proposal, attempt), attempt, evidence)
    return Refusal("repetition", _refusal(state, proposal, attempt), attempt, evidence)


def _kind_of(known: KnownOutcome) -> str:
    return "varies" if known.varies else "temporary" if known.temporary else ""


def _plain(state: State, proposal: Proposal, thresholds: Thresholds) -> Refusal | None:
    attempt = state.scope.loop_counts.get(proposal.signature, 0) + 1
    if attempt < _tool_limit(proposal.tool, thresholds):
        return None
    evidence = f"the same action for the {ordinal(attempt)} time"
    message = _refusal(state, proposal, attempt)
    return Refusal("repetition", message, attempt, evidence, everywhere=True)


def attempts_allowed(tool: str, thresholds: Thresholds, *, soft: bool = False) -> int:
    """Return which attempt of the same action is one too many."""
    limit = _tool_limit(tool, thresholds)
    return max(limit, thresholds.transient_limit) if soft else limit


def _tool_limit(tool: str, thresholds: Thresholds) -> int:
    own = thresholds.tools.get(tool)
    return (own.repeat_limit if own else None) or thresholds.repeat_limit


def _nothing_new(state: State, proposal: Proposal, attempt: int) -> str:
    return (
        f"You have now done this {attempt} times and nothing has changed: the answer is the same. "
        f"If it stays so, do something else. {what_else(state, proposal.calls)}"
    )


def _refusal(state: State, proposal: Proposal, attempt: int) -> str:
    return (
        f"Refused, a loop: this would be attempt {attempt} of the very same action, with nothing changed between. "
        f"{last_time(state, proposal)} {what_else(state, proposal.calls)}"
    )
