"""Moments as people and published files read them; inside, a moment is seconds since 1970."""

from datetime import UTC, datetime


def iso(at: float) -> str:
    """Write a moment: UTC, ISO 8601, microseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")
