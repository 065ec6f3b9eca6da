"""The gate: may this action be done (again), and does the agent need an intervention (docs/loops.md).

Pure functions of state, proposal and thresholds, one file per rule; `judge` asks them in order. Rules never walk the
history: the fold maintains what they need, in `state.Scope` and `state.Attention`. A rule never refuses an action
that was not seen before in its scope: blocking is for repetition.
"""

from clew_shared.gate.attention import review
from clew_shared.gate.rules import judge, judge_again
from clew_shared.gate.verdict import (
    PROTOCOL,
    AgentCalls,
    KnownOutcome,
    Nudge,
    Proposal,
    Refusal,
    Thresholds,
)

__all__ = [
    "PROTOCOL",
    "AgentCalls",
    "KnownOutcome",
    "Nudge",
    "Proposal",
    "Refusal",
    "Thresholds",
    "judge",
    "judge_again",
    "review",
]
