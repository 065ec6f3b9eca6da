"""Restart intensity and back-off, in monotonic times."""

import pytest

from clew_daemon.supervision.restart import Crashes, wait_s
from clew_shared.config.tables import RestartSettings

NUMBERS = RestartSettings()


def crash(times, lived_s=0.0, jitter=1.0, numbers=NUMBERS):
    """Crash at each of the times; give what was decided each time."""
    crashes, decisions = Crashes(), []
    for now in times:
        crashes.add(now, lived_s, numbers)
        decisions.append(crashes.restart_s(numbers, lambda: jitter))
    return decisions


def test_the_first_crash_restarts_at_once():
    assert crash([100.0]) == [0.0]


def test_the_sixth_crash_in_a_minute_gives_up():
    assert crash(range(6))[-1] is None


def test_crashes_that_are_a_window_apart_never_give_up():
    assert crash([n * 60.0 for n in range(100)]) == [0.0] * 100


def test_a_healthy_stretch_starts_the_count_anew():
    assert crash(range(20), lived_s=30.0) == [0.0] * 20


def test_a_wait_never_exceeds_its_bound():
    numbers = RestartSettings(max_restarts=5000, backoff_max_s=7.0)
    waits = crash([0.0] * 3000, numbers=numbers)
    assert max(waits) == 7.0


@pytest.mark.parametrize(
    ("waits", "expected"), [(0, 1.0), (1, 2.0), (2, 4.0), (5, 32.0), (6, 60.0), (10**6, 60.0)]
)
def test_a_worker_that_asks_to_be_retried_later_waits_longer_each_time(waits, expected):
    assert wait_s(waits, NUMBERS) == expected
