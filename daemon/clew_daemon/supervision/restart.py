"""What follows from the end of a worker, and what earlier workers of each goal count for: rules, and no process.

how it ended              what follows
finished, stopped         None:         the goal rests
temporary                 GoalWaiting:  the goal waits, ever longer each time in a row
configuration, unable     a Question:   a person has to fix something first
crash                     the seconds until a restart, or a Question where there were too many
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from clew_daemon.processes.endings import Ended
from clew_shared.backoff import backoff_s
from clew_shared.config.tables import RestartSettings
from clew_shared.core.questions import Question, ask
from clew_shared.record import events as ev
from clew_shared.record.state import State
from clew_shared.text.words import ending, key_line, times

WAIT_FIRST_S = 1.0
"""The first wait for an endpoint that cannot be reached; each later one is twice as long, up to `backoff_max_s`."""


@dataclass(slots=True)
class Crashes:
    """The crashes of one goal's workers that still count, as monotonic times."""

    times: list[float] = field(default_factory=list)

    def add(self, now: float, lived_s: float, numbers: RestartSettings) -> None:
        """Count a crash; a worker that was healthy before it resets the count."""
        if lived_s >= numbers.healthy_after_s:
            self.times.clear()
        self.times = [t for t in self.times if now - t < numbers.window_s] + [now]

    def restart_s(self, numbers: RestartSettings, jitter: Callable[[], float]) -> float | None:
        """Return in how many seconds the next worker starts; None after too many crashes. `jitter` returns 0 to 1."""
        count = len(self.times)
        if count > numbers.max_restarts:
            return None
        if count <= 1:
            return 0.0
        return backoff_s(count - 2, numbers.backoff_initial_s, numbers.backoff_max_s) * jitter()


def wait_s(waits: int, numbers: RestartSettings) -> float:
    """Return how long a worker that asked to be retried later (exit 75) waits, the `waits`-th time in a row."""
    first_s = max(WAIT_FIRST_S, numbers.backoff_initial_s)
    return backoff_s(waits, first_s, numbers.backoff_max_s)


def after_worker(
    state: State,
    ended: Ended,
    crashes: Crashes,
    waits: int,
    numbers: RestartSettings,
    jitter: Callable[[], float],
) -> float | ev.GoalWaiting | Question | None:
    """Return what follows; `crashes` has this one already, `waits` counts the waits in a row before this one."""
    match ended.kind:
        case "finished" | "stopped":
            return None
        case "temporary":
            now, wait = time.time(), ended.retry_after_s or wait_s(waits, numbers)
            return ev.GoalWaiting(at=now, reason=ended.reason, until=now + wait)
        case "crash" if (after_s := crashes.restart_s(numbers, jitter)) is not None:
            return after_s
        case "crash" if ended.reason != "internal":
            words = {"times": times(len(crashes.times)), "window": f"{numbers.window_s:g}"}
            return ask(state, "crashes", ended.detail, ending=ending(ended.reason), **words)
        case "configuration":
            printed = "" if key_line(ended.detail) in ended.reason else ended.detail
            return ask(state, "set_up", printed, fault=ended.reason)
        case "crash":
            key = "internal"
        case "unable":
            key = "damaged" if ended.reason == "ledger" else "cannot_start"
    return ask(state, key, fault=ended.detail)


@dataclass(eq=False)
class RestartHistory:
    """For each goal: crashes that still count, waits, and whether its last run failed unexpectedly.

    When a waiting goal is tried again goes by the monotonic clock: setting the wall clock back prolongs no wait.
    """

    _crashes: dict[str, Crashes] = field(default_factory=dict)
    _in_a_row: dict[str, tuple[int, int]] = field(default_factory=dict)
    _until: dict[str, float] = field(default_factory=dict)
    _failed: set[str] = field(default_factory=set)
    last: str = ""  # the goal of the last restart, and why

    def crashes(self, goal: str) -> Crashes:
        return self._crashes.setdefault(goal, Crashes())

    def run_failed(self, goal: str) -> None:
        self._failed.add(goal)

    def goal_started(self, goal: str) -> None:
        """Forgive a queued goal's crashes; but waiting in the queue between two failed runs forgives none."""
        if goal not in self._failed:
            self._crashes[goal] = Crashes()

    def take(self, goal: str, event: ev.Event) -> None:
        """Take in an event: any of the goal itself ends its wait, a person's word forgives waits and failed runs."""
        if event.kind.startswith("goal_"):
            self._until.pop(goal, None)
        match event:
            case ev.GoalWaiting(until=float(until)):
                self.wait_begins(goal, until - event.at)
            case ev.GoalRequeued():
                self._failed.discard(goal)
                self._in_a_row.pop(goal, None)
            case ev.GoalEnded():
                self._crashes.pop(goal, None)
                self._in_a_row.pop(goal, None)

    def count_wait(self, goal: str, actions: int) -> int:
        """Count a wait; return how many waits there were before it since the goal's last action."""
        seen, count = self._in_a_row.get(goal, (-1, 0))
        count = count + 1 if seen == actions else 0
        self._in_a_row[goal] = (actions, count)
        return count

    def wait_begins(self, goal: str, duration_s: float) -> None:
        self._until[goal] = time.monotonic() + duration_s

    def expired(self) -> set[str]:
        now = time.monotonic()
        return {goal for goal, until in self._until.items() if until <= now}

    def next_s(self) -> float | None:
        now = time.monotonic()
        return min((until - now for until in self._until.values() if until > now), default=None)
