"""What is gone from a workspace and cannot be restored, as no snapshot has it. It blocks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clew_shared.snapshots.names import unquoted

if TYPE_CHECKING:
    from clew_daemon.undo.planning import PlannedUndo


@dataclass(frozen=True, slots=True)
class Gone:
    """A quoted name; `why` as in `LeftOut`, or `ignored`; `bytes` is 0 where the size is not known."""

    name: str
    why: str
    bytes: int = 0


def gone(planned: PlannedUndo, workspace: str) -> tuple[Gone, ...]:
    """Return what the snapshot gone back to has not, and is not there now: by the goal, or ignored and by anyone."""
    if planned.first is None:
        return ()
    known = {one.path: one for one in planned.first.left_out}
    found = []
    for left in planned.plan.left:
        if left.is_gone:
            one = known.get(left.name)
            found.append(Gone(left.name, one.why if one else "", one.bytes if one else 0))
    ignored = planned.first.ignored if planned.span.scope == "goal" else ()
    root = Path(workspace)
    missing = (one for one in ignored if not os.path.lexists(root / os.fsdecode(unquoted(one))))
    return (*found, *(Gone(name, "ignored") for name in missing))
