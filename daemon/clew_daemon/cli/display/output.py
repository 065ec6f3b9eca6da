"""How results are printed: JSON for programs, plain text in a pipe, styled text on a terminal.

A line is made of spans, each a text and a style of rich; without a terminal the styles are dropped
and rich is not even imported. A line that is wider than the terminal is wrapped between words, never cut.
The texts of goals and agents are cleaned before they get here.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

Span = tuple[str, str]
Line = Sequence[Span]

STATUS_STYLE = {
    "queued": "cyan",
    "pending": "dim",
    "in_progress": "bold cyan",
    "waiting": "yellow",
    "blocked": "bold magenta",
    "completed": "green",
    "failed": "bold red",
    "cancelled": "dim",
    "skipped": "dim",
}
RESULT_STYLE = {
    "success": "green",
    "failure": "red",
    "error": "red",
    "timeout": "yellow",
    "blocked": "magenta",
    "interrupted": "yellow",
}


HANGING = 4
"""How far the later parts of a wrapped line are indented, beyond the first one."""

LAST_CELL_MIN = 30
"""The least width that a row's last cell is wrapped in; in less it goes to lines of its own."""


def on_terminal() -> bool:
    """Tell whether stdout is a terminal that can do more than print lines."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def print_json(value: Any) -> None:
    """Print one JSON document, in ASCII, so that no terminal and no locale is troubled by it."""
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines, wrapped between words where the terminal is narrower; a pipe gets them as they are."""
    if not on_terminal():
        for line in lines:
            print("".join(text for text, _ in line).rstrip())
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)  # heeds NO_COLOR itself
    for line in lines:
        for part in wrapped(line, console.width):
            console.print(part, soft_wrap=True)


def styled(line: Line) -> Text:
    """Return a line as rich's text."""
    from rich.text import Text

    return Text.assemble(*line)


def wrapped(line: Line, width: int) -> list[Text]:
    """Return a line in parts that fit the width, the later ones indented; a longer word is left to the terminal.

    Of a row of `columns` the last cell is wrapped in its column, or begins a line where its column is too narrow.
    """
    text, last = styled(line), line.last if isinstance(line, Row) else 0
    return [
        part for each in text.split("\n", allow_blank=True) for part in _parts(each, width, last)
    ]


def _parts(text: Text, width: int, last: int) -> list[Text]:
    from rich.text import Text

    plain = text.plain
    if width_of(plain) <= width:
        return [text]
    column = width_of(plain[:last])
    is_beside = 0 < column <= width - LAST_CELL_MIN
    leading = len(plain) - len(plain.lstrip(" "))
    hang = column if is_beside else min(leading + HANGING, width // 2)
    first, *rest = text.divide(_breaks(plain, width, hang, last, below=not is_beside))
    parts = [first, *(Text.assemble(" " * hang, part) for part in rest)]
    for part in parts:
        part.rstrip()
    return parts


def _breaks(text: str, width: int, hang: int, last: int, *, below: bool) -> list[int]:
    """Return where the parts after the first begin; up to `last` a single space does not part two words."""
    cells = [found.span() for found in re.finditer(r"\S+(?: \S+)*", text[:last])]
    found, column, after = [], 0, 0
    for begin, end in (*cells, *(word.span() for word in re.compile(r"\S+").finditer(text, last))):
        column += width_of(text[after:end])
        if after and (column > width or (below and begin == last)):
            found.append(begin)
            column = hang + width_of(text[begin:end])
        after = end
    return found


class Row(list[Span]):
    """A line of a table: cells padded to their columns; the last one begins at character `last`."""

    def __init__(self, cells: Iterable[Span], last: int) -> None:
        super().__init__(cells)
        self.last = last


def columns(rows: Sequence[Sequence[Span]], gap: str = "  ") -> list[Line]:
    """Set rows in columns, each as wide as its widest cell; the last one is not padded."""
    widths = [max(width_of(row[i][0]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return [_row(row, widths, gap) for row in rows]


def _row(cells: Sequence[Span], widths: list[int], gap: str) -> Row:
    padded = [
        (text + " " * (width - width_of(text)) + gap, style)
        for (text, style), width in zip(cells[:-1], widths, strict=False)
    ]
    return Row([*padded, cells[-1]], sum(len(text) for text, _ in padded))


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes: wide characters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def percent(progress: float) -> str:
    """Return a share of 1 as a percentage."""
    return f"{round(progress * 100)}%"


def counted_as(count: int, one: str, several: str = "") -> str:
    """Return a count with its noun: `1 goal`, `2 goals`; `several` is the plural where it is not formed by -s."""
    return f"{count} {one if count == 1 else several or one + 's'}"


def roughly(seconds: float) -> str:
    """Return a time in its largest unit: `12 s`, `5 min`, `3 h`, `2 d`."""
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{int(seconds // unit)} {name}"
    return f"{int(seconds)} s"


def duration(seconds: float, *, whole: bool = False) -> str:
    """Return a time in its two largest units: `3.2 s`, `4 min 10 s`, `2 h 5 min`, `3 d 4 h`; `whole` drops tenths."""
    seconds = int(seconds) if whole else round(seconds, 1)
    if seconds < 60:
        return f"{seconds} s" if whole else f"{seconds:.1f} s"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour} h"
    return f"{hours} h {minute} min" if hours else f"{minutes} min {second} s"
