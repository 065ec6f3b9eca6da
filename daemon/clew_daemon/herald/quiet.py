"""Quiet hours: when a message must wait. Pure: the local time comes in."""

from __future__ import annotations

from datetime import datetime, time, timedelta


def quiet_until(now: datetime, quiet: str) -> datetime | None:
    """Return when the quiet hours that `now` falls in end, None outside of them.

    `quiet` is "HH:MM-HH:MM" in local time, which may go over midnight, or "" for none.
    """
    if not quiet:
        return None
    begin, end = (time.fromisoformat(part) for part in quiet.split("-"))
    clock = now.time()
    within = begin <= clock < end if begin < end else clock >= begin or clock < end
    if not within:
        return None
    day = now.date() + timedelta(days=1 if clock >= end else 0)
    return datetime.combine(day, end, tzinfo=now.tzinfo)
