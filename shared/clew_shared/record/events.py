"""Everything that can happen to a goal, one frozen model for each kind: what the ledger holds and the fold reads.

An event states what was decided or observed, never what should be done about it. Events are only added to:
a field that came later has a default, so that an old ledger still folds.
"""

from clew_shared.record.life_events import *  # noqa: F403
from clew_shared.record.step_events import *  # noqa: F403
