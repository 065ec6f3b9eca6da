"""Lines on the daemon itself: whether it answers, its config file, and the files of its inbox that are no goals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_daemon.reading.output import INDENT, paragraph
from clew_daemon.reading.sanitize import clean, duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clew_daemon.reading.output import Line
    from clew_shared.ledger.lock import Holder

KEEPS_CONFIG = f"{INDENT}the daemon keeps the config that it has; `clew config` names every error"


def daemon_lines(
    daemon: Mapping[str, Any] | None, holder: Holder | None = None, to_start: str = ""
) -> list[Line]:
    """Return lines on the daemon that answered, or on the `holder` of the lock, or how to start one, where none did."""
    if daemon is None:
        state = (
            f"{holder.running} but does not answer"
            if holder
            else f"no daemon is running (start it with {to_start})"
        )
        return [[(clean(f"{state}; showing the last recorded state"), "yellow")]]
    ready = "" if daemon.get("ready", True) else ", not ready yet"
    up = duration(daemon["uptime_s"], whole=True)
    text = f"daemon {daemon['version']}, pid {daemon['pid']}, running for {up}{ready}"
    status = clean(str(daemon.get("status") or ""))
    lines: list[Line] = [[(f"{text}{': ' if status else ''}{status}", "dim")]]
    if error := daemon.get("config_error"):
        lines += paragraph("the config file has an error: ", str(error), "yellow")
        lines.append([(KEEPS_CONFIG, "dim")])
    return lines


def inbox_lines(inbox: Iterable[Mapping[str, Any]]) -> list[Line]:
    """Return lines on the files of the inbox that are no goals, with the reasons."""
    lines: list[Line] = []
    for file in inbox:
        state = "rejected" if file["rejected"] else "left in the inbox"
        lines += paragraph(f"{state}: {clean(file['name'])}: ", file["reason"] or "", "yellow")
    return lines
