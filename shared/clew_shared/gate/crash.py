"""The `crash` rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.gate.messages import what_else
from clew_shared.gate.verdict import Proposal, Refusal, Thresholds
from clew_shared.text.words import times

if TYPE_CHECKING:
    from clew_shared.record.state import State


def crash(state: State, proposal: Proposal, thresholds: Thresholds) -> Refusal | None:
    """Refuse an action that was in flight when the worker died, `crash_limit` times.

    Source: the restart intensity of OTP supervisors, applied per action. Stops: the build that uses all memory
    and kills the worker, each time it runs. Must pass: an action that a stop, a reload or the
    daemon's own death interrupted; those do not count.
    """
    deaths = state.scope.crashes.get(proposal.signature, 0)
    if deaths < thresholds.crash_limit:
        return None
    why = state.scope.died.get(proposal.signature, "")
    how = f" (the last time: {why})" if why else ""
    message = (
        f"Refused: the worker died {deaths} times while this action was running{how}. What it did is unknown. "
        f"Look at the workspace first, then find a way that needs fewer resources. {what_else(state, proposal.calls)}"
    )
    evidence = f"it was running when the worker died, {times(deaths)}"
    return Refusal("crash", message, deaths + 1, evidence, everywhere=True)
