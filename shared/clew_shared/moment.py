"""Moments as people and published files read them; inside, a moment is seconds since 1970."""

from datetime import UTC, datetime


def local(at: float) -> str:
    """Return a moment as a person reads it: this machine's time, to the second, with its zone."""
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def iso(at: float) -> str:
    """Write a moment: UTC, ISO 8601, microseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")
