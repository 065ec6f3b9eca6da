"""What a refusal says: what happened the last time, and what to do instead. Plain words, no jargon."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew_shared.gate.verdict import Proposal
    from clew_shared.state import State, Tally


def last_tally(state: State, proposal: Proposal) -> Tally | None:
    """Find how the action went the last time: in this world, else in any."""
    worlds = state.scope.tallies.get(proposal.signature, {})
    here = worlds.get(state.world)
    return here or max(worlds.values(), key=lambda t: t.seq, default=None)


def last_time(state: State, proposal: Proposal) -> str:
    """Say how the action went the last time, with the head of its output."""
    tally = last_tally(state, proposal)
    if tally is None:
        return ""
    if tally.result == "success":
        said = f' and said: "{tally.head}"' if tally.head else ""
        return f"It already succeeded{said}. What it does is done; doing it again changes nothing."
    said = f' with: "{tally.head}"' if tally.head else ""
    return f"The last time it ended in {tally.result}{said}."


def what_else(state: State) -> str:
    """Say what to do instead."""
    subtask = state.subtask
    name = f' "{subtask.description}"' if subtask else ""
    return (
        f"Do something else: if the subtask{name} is done, call complete_subtask; if the whole goal is done, "
        "call finish; otherwise try a different action (read the output above, change a file, another command), "
        "or complete_subtask with success=false to say that this way does not work and a replan is needed."
    )
