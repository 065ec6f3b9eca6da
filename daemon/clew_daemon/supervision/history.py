"""What the earlier workers of each goal count for, as long as this daemon lives."""

from __future__ import annotations

from clew_daemon.supervision.restart import Crashes


class RestartHistory:
    """For each goal: crashes that still count, waits in a row, and whether its last run failed unexpectedly."""

    def __init__(self) -> None:
        self._crashes: dict[str, Crashes] = {}
        self._waits: dict[str, tuple[int, int]] = {}
        self._failed: set[str] = set()

    def crashes(self, goal: str) -> Crashes:
        """Return the crashes of a goal's workers."""
        return self._crashes.setdefault(goal, Crashes([]))

    def run_failed(self, goal: str) -> None:
        """Note that a run ended by an unexpected error, which counts as a crash."""
        self._failed.add(goal)

    def goal_started(self, goal: str) -> None:
        """Forgive a queued goal's crashes; but waiting in the queue between two failed runs forgives none."""
        if goal not in self._failed:
            self._crashes[goal] = Crashes([])

    def goal_requeued(self, goal: str) -> None:
        """Forgive waits and failed runs: a person has the goal tried again."""
        self._failed.discard(goal)
        self._waits.pop(goal, None)

    def goal_ended(self, goal: str) -> None:
        """Forget a goal."""
        self._crashes.pop(goal, None)
        self._waits.pop(goal, None)

    def count_wait(self, goal: str, actions: int) -> int:
        """Count a wait; return how many waits there were before it since the goal's last action."""
        seen, count = self._waits.get(goal, (-1, 0))
        count = count + 1 if seen == actions else 0
        self._waits[goal] = (actions, count)
        return count
