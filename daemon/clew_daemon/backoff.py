"""How long to wait before another try, the same rule for restarts, connections and deliveries. Pure."""

_DOUBLINGS_MAX = 60


def backoff_s(earlier: int, first_s: float, max_s: float) -> float:
    """Return the next pause in seconds, after `earlier` pauses: `first_s`, doubled each time, at most `max_s`."""
    return min(max_s, first_s * 2.0 ** min(max(earlier, 0), _DOUBLINGS_MAX))
