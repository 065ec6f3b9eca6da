"""When a worker is restarted, and after how long: rules, and what earlier workers of each goal count for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from clew_shared.backoff import backoff_s


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


IDLE_MAX = 50
"""After this many workers in a row have crashed without having done anything, give up, however rare the crashes."""

WAIT_FIRST_S = 1.0
"""The first wait for an endpoint that cannot be reached; each later one is twice as long, up to `backoff_max_s`."""


class RestartNumbers(Protocol):
    """The keys of the `[restart]` table that the rules use."""

    @property
    def backoff_initial_s(self) -> float: ...
    @property
    def backoff_max_s(self) -> float: ...
    @property
    def max_restarts(self) -> int: ...
    @property
    def window_s(self) -> float: ...
    @property
    def healthy_after_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class RestartAfter:
    """Start the next worker after this many seconds."""

    after_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """There were too many crashes: a person has to act. `window_s` is None where the time does not matter."""

    crashes: int
    window_s: float | None

    def __str__(self) -> str:
        if self.window_s is None:
            return f"{self.crashes} workers in a row crashed without having done anything"
        return f"the worker crashed {self.crashes} times in {self.window_s:g} s"


@dataclass(slots=True)
class Crashes:
    """The crashes of one goal's workers that still count, as monotonic times.

    `idle` counts the workers in a row that crashed without having done anything, however long they lived.
    """

    times: list[float]
    idle: int = 0

    def add(
        self, now: float, lived_s: float, numbers: RestartNumbers, *, idle: bool = False
    ) -> None:
        """Count a crash; a worker that was healthy before it resets the count."""
        self.idle = self.idle + 1 if idle else 0
        if lived_s >= numbers.healthy_after_s:
            self.times.clear()
        self.times = [t for t in self.times if now - t < numbers.window_s] + [now]


def decide(
    crashes: Crashes, numbers: RestartNumbers, jitter: Callable[[], float]
) -> RestartAfter | GiveUp:
    """Return when the next worker starts, after a crash was added; `jitter` returns 0 to 1."""
    count = len(crashes.times)
    if count > numbers.max_restarts:
        return GiveUp(count, numbers.window_s)
    if crashes.idle >= IDLE_MAX:
        return GiveUp(crashes.idle, None)
    if count <= 1:
        return RestartAfter(0.0)
    ceiling_s = backoff_s(count - 2, numbers.backoff_initial_s, numbers.backoff_max_s)
    return RestartAfter(ceiling_s * jitter())


def wait_s(waits: int, numbers: RestartNumbers) -> float:
    """Return how long a worker that asked to be retried later (exit 75) waits, the `waits`-th time in a row."""
    first_s = max(WAIT_FIRST_S, numbers.backoff_initial_s)
    return backoff_s(waits, first_s, numbers.backoff_max_s)
