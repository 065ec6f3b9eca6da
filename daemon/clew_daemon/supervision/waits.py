"""When waiting goals are tried again, by the monotonic clock: one that is set back makes no wait longer.

The record has the moment by the wall clock, for people and for the next daemon. Nothing here knows goals' states.
"""

from __future__ import annotations

import time


class Waits:
    """The waits of this daemon's life; durations in seconds."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def begin(self, goal: str, duration_s: float) -> None:
        """Let a goal wait so long from now on."""
        self._until[goal] = time.monotonic() + duration_s

    def end(self, goal: str) -> None:
        """Forget a goal's wait, if it has one."""
        self._until.pop(goal, None)

    def over(self) -> set[str]:
        """Name the goals that have waited as long as they were to."""
        now = time.monotonic()
        return {goal for goal, until in self._until.items() if until <= now}

    def next_s(self) -> float | None:
        """Return the seconds until the next wait that is not over yet, None for none."""
        now = time.monotonic()
        return min((until - now for until in self._until.values() if until > now), default=None)
