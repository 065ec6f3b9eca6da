"""Times as text, for people and published files; elsewhere a time is seconds since 1970."""

from datetime import UTC, datetime


def iso(at: float) -> str:
    """Return a time for programs: UTC, ISO 8601, microseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")


def local(at: float | str) -> str:
    """Return seconds since 1970, or text of `iso`, as local time to the second; other text is returned unchanged."""
    try:
        moment = (
            datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
        )
        return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return str(at)


def roughly(seconds: float) -> str:
    """Return a time in its largest unit: `12 s`, `5 min`, `3 h`, `2 d`."""
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{int(seconds // unit)} {name}"
    return f"{int(seconds)} s"
