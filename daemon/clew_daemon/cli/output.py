"""How results are printed: JSON for programs, plain text in a pipe, styled text on a terminal.

A line is made of spans, each a text and a style of rich; without a terminal the styles are dropped
and rich is not even imported. The texts of goals and agents are cleaned before they get here.
"""

from __future__ import annotations

import json
import os
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


def on_terminal() -> bool:
    """Tell whether stdout is a terminal that can do more than print lines."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def print_json(value: Any) -> None:
    """Print one JSON document, in ASCII, so that no terminal and no locale is troubled by it."""
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines as the place they go to can show them."""
    if not on_terminal():
        for line in lines:
            print("".join(text for text, _ in line).rstrip())
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)  # heeds NO_COLOR itself
    for line in lines:
        console.print(styled(line), overflow="fold", soft_wrap=True)


def styled(line: Line) -> Text:
    """Give a line as rich's text."""
    from rich.text import Text

    return Text.assemble(*line)


def columns(rows: Sequence[Sequence[Span]], gap: str = "  ") -> list[Line]:
    """Set rows in columns, each as wide as its widest cell; the last one is not padded."""
    widths = [max(len(row[i][0]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return [
        [
            (text if i == len(row) - 1 else text.ljust(width) + gap, style)
            for i, ((text, style), width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]


def percent(progress: float) -> str:
    """Write a share of 1 in per cent."""
    return f"{round(progress * 100)}%"


def duration(seconds: float) -> str:
    """Write a time in the two largest units: `3.2 s`, `4 min 10 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour} h"
    return f"{hours} h {minute} min" if hours else f"{minutes} min {second} s"
