"""The last lines of the log that a page shows, filtered; a bounded part of the file is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew_shared.record.moment import local

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READ_BYTES = 4 << 20
LINES_SHOWN = 300
TEXT_CHARS = 500
_HEAD = ("timestamp", "level", "event", "goal", "epoch", "seq")


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log: `rest` is everything besides its head, as `key=value`."""

    at: str
    level: str
    event: str
    goal: str
    rest: str


def last_lines(path: Path, text: str, goal: str) -> list[LogLine]:
    """Return the last lines that contain a text (in whatever case) and are about a goal, the latest first."""
    wanted, found = text.casefold(), list[LogLine]()
    for raw in reversed(_tail(path)):
        if wanted and wanted not in raw.decode("utf-8", "replace").casefold():
            continue
        line = _line(raw)
        if goal and line.goal != goal:
            continue
        found.append(line)
        if len(found) == LINES_SHOWN:
            break
    return found


def _tail(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - READ_BYTES))
            lines = file.read(READ_BYTES).splitlines()
    except OSError:
        return []
    return lines[1:] if size > READ_BYTES else lines


def _line(raw: bytes) -> LogLine:
    try:
        entry: Any = json.loads(raw)
    except ValueError:
        entry = None
    if not isinstance(entry, dict):  # a torn line, after a full disk or a power cut
        return LogLine("", "warning", raw[:TEXT_CHARS].decode("utf-8", "replace"), "", "")
    rest = " ".join(_words(entry))
    return LogLine(
        local(str(entry.get("timestamp", ""))),
        str(entry.get("level", "")),
        str(entry.get("event", "")),
        str(entry.get("goal", "")),
        rest if len(rest) <= TEXT_CHARS else f"{rest[:TEXT_CHARS]}…",
    )


def _words(entry: dict[str, Any]) -> Iterator[str]:
    for key in ("epoch", "seq"):
        if entry.get(key):
            yield f"{key}={entry[key]}"
    for key, value in entry.items():
        if key not in _HEAD:
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield f"{key}={shown}"
