"""The rules for actions, in the order in which they are asked."""

from __future__ import annotations

from clew_shared.gate.crash import crash
from clew_shared.gate.cycle import cycle
from clew_shared.gate.messages import last_time, what_else
from clew_shared.gate.repetition import repetition
from clew_shared.gate.verdict import Nudge, Proposal, Refusal, Thresholds
from clew_shared.judge.reading import is_wait
from clew_shared.record.state import EVERYWHERE, State


def judge(state: State, proposal: Proposal, thresholds: Thresholds) -> Refusal | Nudge | None:
    """Return whether a proposal may run: a Refusal, a Nudge (it may, with advice), or None (it may).

    Waits are judged by the crash rule alone: letting time pass is not a loop.
    """
    if found := blocked(state, proposal):
        return found
    if found := crash(state, proposal, thresholds):
        return found
    if proposal.signature not in state.scope.loop_counts or is_wait(proposal.tool, proposal.args):
        return None  # blocking is for what was done before
    if proposal.known and proposal.known.progress and thresholds.progress_aware:
        return None
    repeated = repetition(state, proposal, thresholds)
    if isinstance(repeated, Refusal):
        return repeated
    return cycle(state, proposal, thresholds) or repeated


def judge_again(state: State, proposal: Proposal, thresholds: Thresholds) -> Refusal | None:
    """Return why a step of a runbook must not run again at a person's word, or that of the goal file; None: it may."""
    return blocked(state, proposal) or crash(state, proposal, thresholds)


def blocked(state: State, proposal: Proposal) -> Refusal | None:
    """Refuse an action that is blocked in this world.

    Stops: the same failing command after it was refused. Must pass: the same command once the workspace has
    changed, since a block belongs to the world in which it was made.
    """
    worlds = state.scope.blocks.get(proposal.signature)
    if not worlds:
        return None
    kind = worlds.get(EVERYWHERE) or worlds.get(state.world)
    if kind is None:
        return None
    message = (
        f"This action is blocked ({kind}): it was refused before and nothing has changed since. "
        f"{last_time(state, proposal)} {what_else(state, proposal.calls)}"
    )
    return Refusal("blocked_action", message, loop=False)
