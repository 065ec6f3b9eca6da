"""State is a fold of the ledger: `apply` takes one event into a state, and nothing else ever changes one.

Pure and without rules: an event states what was decided, and here is only what follows from it. The fold sees no
clock, no settings and no process, so that a replay gives the same state on any machine, at any time.
"""

from clew_shared.record.fold.table import apply, fold

__all__ = ["apply", "fold"]
