"""The part of the `repetition` rule for receipts: answers that differ by fresh ids alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.gate.messages import what_else
from clew_shared.gate.repetition import attempts_allowed
from clew_shared.gate.verdict import Nudge, Proposal, Refusal, Thresholds

if TYPE_CHECKING:
    from clew_shared.record.state import State


def receipts(state: State, proposal: Proposal, thresholds: Thresholds) -> Refusal | Nudge | None:
    """Warn of an action that was answered the same but for fresh ids each time; refuse it at twice as many attempts.

    An id says nothing until it is used, so that the second message sent is the first one again. It is warned of first,
    since several of a kind may be wanted, and later if something is still going on. Stops: one message sent twenty
    times, one file uploaded again and again. Must pass: ids that the agent uses (the count starts again), cursors, a
    poll whose numbers move, `uuidgen`, the same notice after each change of the workspace, the same call after a wait.
    """
    if not thresholds.progress_aware:
        return None
    last, known = state.scope.receipts.get(proposal.signature), proposal.known
    if last is None or (not known.receipt if known else last.world != state.world):
        return None
    limit = attempts_allowed(proposal.tool, thresholds, soft=last.soft)
    attempt = last.count + 1
    evidence = f"attempt {attempt} of the same action, answered the same but for fresh ids, none of which was used"
    if attempt == limit:
        return Nudge(_warning(state, proposal, attempt), attempt, evidence)
    if attempt < max(2 * limit, thresholds.transient_limit):
        return None
    message = (
        f"Refused, a loop: this would be attempt {attempt} of the very same action. Each time the answer was the same "
        "but for a fresh id, and none of these ids was used. It has already been done. "
        f"{what_else(state, proposal.calls)}"
    )
    return Refusal("repetition", message, attempt, evidence)


def _warning(state: State, proposal: Proposal, attempt: int) -> str:
    return (
        f"You have now done this {attempt} times, and each time the answer was the same but for a fresh id. It has "
        "already been done: use what you got, if you need it, and do not do it again. "
        f"{what_else(state, proposal.calls)}"
    )
