"""The `alternation` and `cycle` rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.gate.messages import last_time, what_else
from clew_shared.gate.verdict import Proposal, Refusal, Thresholds

if TYPE_CHECKING:
    from clew_shared.record.state import CycleStep, State


def cycle(state: State, proposal: Proposal, thresholds: Thresholds) -> Refusal | None:
    """Refuse the action that would complete one more identical round of p actions without progress.

    The second round is refused if it contains a write that changed nothing or led back to an earlier world, or if
    there are only plain counts to go by; otherwise the third. Waits are not part of a round.

    Stops: edit, test, the same edit, test; an edit made and undone; three greps in a ring.
    Must pass: edit, test, another edit, test (other signatures), and rounds in which the output moves.
    """
    for period in range(2, thresholds.max_period + 1):
        rounds = _closes(state.scope.steps, proposal, period, thresholds)
        if rounds:
            return _refusal(state, proposal, period, rounds)
    return None


def _closes(steps: list[CycleStep], proposal: Proposal, period: int, thresholds: Thresholds) -> int:
    """Return how many identical rounds the proposal would complete, 0 if none that count."""
    for rounds in (2, 3):
        need = rounds * period - 1
        if len(steps) < need or not _equal_rounds(steps[-need:], proposal.signature, period):
            return 0
        again = steps[-(need - period) :]  # all but the first round, which may well be progress
        if not thresholds.progress_aware:
            return rounds
        if any(step.progress for step in again):
            return 0
        idle = any(step.idle for step in again) or bool(proposal.known and proposal.known.idle)
        certain = idle or all(step.plain for step in steps[-need:])
        if rounds == 3 or certain:
            return rounds
    return 0


def _equal_rounds(steps: list[CycleStep], signature: str, period: int) -> bool:
    names = [step.signature for step in steps] + [signature]
    first = names[:period]
    if len(set(first)) == 1:
        return False  # one action over and over is for the repetition rule
    return all(name == first[i % period] for i, name in enumerate(names))


def _refusal(state: State, proposal: Proposal, period: int, rounds: int) -> Refusal:
    kind = "alternation" if period == 2 else "cycle"
    ring = [step.signature for step in state.scope.steps[-(period - 1) :]] + [proposal.signature]
    evidence = (
        f"round {rounds} of the same {period} actions, which brought nothing new: "
        + " → ".join(name[:80] for name in ring)
    )
    message = (
        f"Refused, a loop: this would close round {rounds} of the same {period} actions in turn, and nothing new "
        f"came of it. {last_time(state, proposal, in_cycle=not proposal.known)} {what_else(state, proposal.calls)}"
    )
    return Refusal(kind, message, rounds, evidence)
