"""A time limit around work that cannot be interrupted otherwise: a regular expression, an endless file."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TimeUpError(Exception):
    """The time is up."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeUpError after `seconds`, also inside a regular expression."""

    def ring(_signum: int, _frame: object) -> None:
        raise TimeUpError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
