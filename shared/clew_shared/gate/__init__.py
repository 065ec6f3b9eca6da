"""The gate: may this action be done (again), and does the agent need an intervention (docs/loops.md).

Pure functions of state, proposal and thresholds: `table` refuses, `words` speaks. Rules never walk the history: the
fold maintains what they need, in `state.Scope` and `state.Attention`.
"""
