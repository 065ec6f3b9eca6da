"""The gate: may this be done again, and does the agent need a word.

Pure functions of state, proposal and thresholds, one file per rule; `judge` asks them in order. Rules never
walk the history: what they need is kept in `state.Scope` and `state.Attention`, incrementally.
A rule never refuses an action that was not seen before in its scope: blocking is for the repeated thing.
"""

from clew_shared.gate.attention import review
from clew_shared.gate.rules import judge
from clew_shared.gate.verdict import PROTOCOL, Calls, Known, Nudge, Proposal, Refusal, Thresholds

__all__ = [
    "PROTOCOL",
    "Calls",
    "Known",
    "Nudge",
    "Proposal",
    "Refusal",
    "Thresholds",
    "judge",
    "review",
]
