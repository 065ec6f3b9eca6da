"""Whether and when a worker that ended is started again: pure functions of monotonic times.

Source: the restart intensity of OTP supervisors (`max_restarts` in `window_s`), with exponential back-off and
full jitter between restarts, and the first crash in a window restarted at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Numbers(Protocol):
    """The `[restart]` table as far as it is needed here."""

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
class Again:
    """Start it again after so many seconds."""

    after_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It crashed too often; a person must look."""

    crashes: int
    window_s: float


@dataclass(slots=True)
class Crashes:
    """The crashes of one goal's workers that still count, as monotonic times."""

    times: list[float]

    def add(self, now: float, lived_s: float, numbers: Numbers) -> None:
        """Take in a crash; a worker that was healthy before it starts the count anew."""
        if lived_s >= numbers.healthy_after_s:
            self.times.clear()
        self.times = [t for t in self.times if now - t < numbers.window_s] + [now]


def decide(crashes: Crashes, numbers: Numbers, jitter: Callable[[], float]) -> Again | GiveUp:
    """Say when the next worker starts, after a crash was added; `jitter` gives 0 to 1."""
    count = len(crashes.times)
    if count > numbers.max_restarts:
        return GiveUp(count, numbers.window_s)
    if count <= 1:
        return Again(0.0)
    ceiling = min(numbers.backoff_max_s, numbers.backoff_initial_s * 2.0 ** min(count - 2, 60))
    return Again(ceiling * jitter())


def wait_s(waits: int, numbers: Numbers) -> float:
    """Say how long a worker that asked to be tried later (exit 75) waits, the `waits`-th time in a row."""
    return min(numbers.backoff_max_s, numbers.backoff_initial_s * 2.0 ** min(waits, 60))
