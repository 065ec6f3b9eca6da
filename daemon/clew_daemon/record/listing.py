"""Which goals a list shows: a pure rule, for the daemon and for the command line without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clew_shared.record.state import State


def listed(
    states: Iterable[State], limit: int | None, before: int | None = None
) -> tuple[list[State], bool]:
    """Return the goals to show, in the order of their acceptance, and whether earlier ones are left out.

    All that are not over, and of the others the last `limit` (None: all). With `before`, the number of an
    acceptance, only those that are over and were accepted earlier.
    """
    inside = [s for s in states if before is None or (s.ended and s.accepted_seq < before)]
    over = [s.goal_id for s in inside if s.ended]
    left_out = set() if limit is None else set(over[: max(0, len(over) - limit)])
    return [s for s in inside if s.goal_id not in left_out], bool(left_out)
