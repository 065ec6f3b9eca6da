"""What follows from the end of a worker, and what earlier workers of each goal count for: rules, and no process.

how it ended              what follows
finished, stopped         None:         the goal rests
temporary                 GoalWaiting:  the goal waits, ever longer each time in a row
configuration, unable     a Question:   a person has to fix something first
crash                     the seconds until a restart, or a Question where there were too many
"""

import time
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


@dataclass(eq=False)
class RestartHistory:
    """For each goal: the monotonic times of the crashes that still count, and its waits in a row."""

    _crashes: dict[str, list[float]] = field(default_factory=dict)
    _waits: dict[str, tuple[int, int]] = field(default_factory=dict)
    last: str = ""  # the goal of the last restart, and why

    def crashed(self, goal: str, lived_s: float, numbers: RestartSettings) -> int:
        """Count a crash; return how many count: those in the window, and none before a worker that was healthy."""
        now = time.monotonic()
        earlier = [] if lived_s >= numbers.healthy_after_s else self._crashes.get(goal, [])
        self._crashes[goal] = [t for t in earlier if now - t < numbers.window_s] + [now]
        return len(self._crashes[goal])

    def waited(self, goal: str, actions: int) -> int:
        """Count a wait; return how many waits there were before it since the goal's last action."""
        seen, count = self._waits.get(goal, (-1, 0))
        count = count + 1 if seen == actions else 0
        self._waits[goal] = (actions, count)
        return count

    def take(self, goal: str, event: ev.Event) -> None:
        """Forget what a goal's workers count for where it has ended, or a person lets it go on."""
        if isinstance(event, ev.GoalRequeued | ev.GoalEnded):
            self._crashes.pop(goal, None)
            self._waits.pop(goal, None)


def restart_s(crashes: int, numbers: RestartSettings) -> float | None:
    """Return in how many seconds the next worker starts after so many crashes; None after too many."""
    if crashes > numbers.max_restarts:
        return None
    if crashes <= 1:
        return 0.0
    return backoff_s(crashes - 2, numbers.backoff_initial_s, numbers.backoff_max_s)


def wait_s(waits: int, numbers: RestartSettings) -> float:
    """Return how long a worker that asked to be retried later (exit 75) waits, the `waits`-th time in a row."""
    first_s = max(WAIT_FIRST_S, numbers.backoff_initial_s)
    return backoff_s(waits, first_s, numbers.backoff_max_s)


def after_worker(
    state: State, ended: Ended, crashes: int, waits: int, numbers: RestartSettings
) -> float | ev.GoalWaiting | Question | None:
    """Return what follows; `crashes` counts this one too, `waits` the waits in a row before this one."""
    match ended.kind:
        case "finished" | "stopped":
            return None
        case "temporary":
            now, wait = time.time(), ended.retry_after_s or wait_s(waits, numbers)
            return ev.GoalWaiting(at=now, reason=ended.reason, until=now + wait)
        case "crash" if (after_s := restart_s(crashes, numbers)) is not None:
            return after_s
        case "crash" if ended.reason != "internal":
            words = {"times": times(crashes), "window": f"{numbers.window_s:g}"}
            return ask(state, "crashes", ended.detail, ending=ending(ended.reason), **words)
        case "configuration":
            printed = "" if key_line(ended.detail) in ended.reason else ended.detail
            return ask(state, "set_up", printed, fault=ended.reason)
        case "crash":
            key = "internal"
        case "unable":
            key = "damaged" if ended.reason == "ledger" else "cannot_start"
    return ask(state, key, fault=ended.detail)
