"""When waiting goals are tried again, by the monotonic clock: setting the wall clock back prolongs no wait.

The record has the moment by the wall clock, for people and for the next daemon.
"""

from __future__ import annotations

import time


class Waits:
    """The waits of this daemon's life; durations in seconds."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def begin(self, goal: str, duration_s: float) -> None:
        """Let a goal wait this long from now on."""
        self._until[goal] = time.monotonic() + duration_s

    def end(self, goal: str) -> None:
        """Remove a goal's wait, if it has one."""
        self._until.pop(goal, None)

    def expired(self) -> set[str]:
        """Return the goals that have waited long enough."""
        now = time.monotonic()
        return {goal for goal, until in self._until.items() if until <= now}

    def next_s(self) -> float | None:
        """Return the seconds until the next wait expires, None where none is left."""
        now = time.monotonic()
        return min((until - now for until in self._until.values() if until > now), default=None)
