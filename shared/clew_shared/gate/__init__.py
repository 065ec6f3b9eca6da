"""The gate: may this action be done (again), and does the agent need an intervention (docs/loops.md).

Pure functions of state, proposal and thresholds: `table` refuses, `words` speaks. Rules never walk the history: the
fold maintains what they need, in `state.Scope` and `state.Attention`.
"""

from clew_shared.gate.table import judge, judge_again
from clew_shared.gate.verdict import (
    PROTOCOL,
    AgentCalls,
    KnownOutcome,
    Nudge,
    Proposal,
    Refusal,
    Thresholds,
)
from clew_shared.gate.words import review

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
