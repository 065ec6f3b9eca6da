"""When a usage limit ends, by the sentence in which a CLI says so.

Codex: "try again at 12:51 PM.", "try again at Nov 28th, 2026 10:51 AM.", earlier "try again in 2 days 17 hours".
Claude Code: "resets 4pm (Europe/Berlin)", "resets Nov 28, 4:30pm (UTC)". opencode: "will reset in 5 days 10 hours".
A time of day is in the zone in parentheses, else in UTC: the CLIs are started with TZ=UTC.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

AHEAD_MAX_S = 32 * 86_400.0
"""A later time is not believed."""

_UNIT_S = {"day": 86_400, "hour": 3_600, "minute": 60, "min": 60, "second": 1, "sec": 1}
_PART = re.compile(r"(\d{1,6})\s*(day|hour|minute|min|second|sec)s?\b", re.IGNORECASE)
_IN = re.compile(r"\b(?:again|resets?)\s+in\s+([^.;]{1,80})", re.IGNORECASE)
_AT = re.compile(
    r"\b(?:again at|resets?(?: at)?)\s+"
    r"(?:(?P<month>[A-Z][a-z]{2})[a-z]*\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s*(?:(?P<year>\d{4}),?\s*)?(?:at )?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap]m)(?:\s*\((?P<zone>[\w/+-]{1,40})\))?",
    re.IGNORECASE,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def reset_time(text: str, now: float) -> float | None:
    """Return the time that a text names (seconds since the epoch), None if it names none in the next 32 days."""
    found = _AT.search(text)
    try:
        at = _clock_time(found, now) if found else _after(text, now)
    except (ValueError, OverflowError):
        return None
    return at if at is not None and now <= at <= now + AHEAD_MAX_S else None


def _after(text: str, now: float) -> float | None:
    """Return the time after a duration: "2 days 17 hours 14 minutes"."""
    found = _IN.search(text)
    parts = _PART.findall(found[1]) if found else []
    return now + sum(int(n) * _UNIT_S[unit.lower()] for n, unit in parts) if parts else None


def _clock_time(found: re.Match[str], now: float) -> float:
    here = datetime.fromtimestamp(now, _zone(found["zone"]))
    hour = int(found["hour"]) % 12 + (12 if found["half"].lower() == "pm" else 0)
    at = here.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
    if not found["month"]:
        return (at if at >= here - timedelta(minutes=1) else at + timedelta(days=1)).timestamp()
    month = _MONTHS.index(found["month"].lower()) + 1
    at = at.replace(year=int(found["year"] or here.year), month=month, day=int(found["day"]))
    if not found["year"] and at < here - timedelta(days=1):
        at = at.replace(year=here.year + 1)
    return at.timestamp()


def _zone(name: str | None) -> tzinfo:
    try:
        return ZoneInfo(name) if name else UTC
    except (OSError, ValueError, KeyError):
        return UTC
