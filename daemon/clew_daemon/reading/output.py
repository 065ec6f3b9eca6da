"""Printing of results: JSON for programs, plain text in a pipe, styled text on a terminal.

A line consists of spans, each a text and a style of rich; without a terminal the styles are dropped and rich is not
imported. A line that is wider than the terminal is wrapped between words, never cut. The caller cleans the texts of
goals and agents (`sanitize.clean`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from clew_daemon.reading.sanitize import clean
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from rich.text import Text

Span = tuple[str, str]
Line = Sequence[Span]
INDENT = "    "

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


LAST_CHARS = 30  # The least room of a table's last column, beside the others
HANGING = 4  # The indentation of the later parts of a wrapped line, in columns beyond that of the first one


def on_terminal() -> bool:
    """Return whether stdout is a terminal that understands control sequences."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def print_json(value: Any) -> None:
    """Print one JSON document, in ASCII, which every terminal and locale can show."""
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines, wrapped between words to the width of the terminal; unwrapped into a pipe."""
    if not on_terminal():
        for line in lines:
            print("".join(text for text, _ in line).rstrip())
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)  # rich respects NO_COLOR
    for line in lines:
        for part in wrapped(line, console.width):
            console.print(part, soft_wrap=True)


def room() -> int:
    """Return the width of the terminal; 0 in a pipe, where lines are as long as they are."""
    return shutil.get_terminal_size().columns if on_terminal() else 0


def show(value: Any, lines: Iterable[Line | str], *, as_json: bool, failed: bool = False) -> None:
    """Print a result: as one JSON document, or as lines; a command whose work has `failed` exits with 1 then."""
    if as_json:
        print_json(value)
    else:
        print_lines([(line, "")] if isinstance(line, str) else line for line in lines)
    if failed:
        from click.exceptions import Exit

        raise Exit(ExitCode.FAILED)


def wrapped(line: Line, width: int) -> list[Text]:
    """Return a line in parts that fit the width, the later ones indented; the terminal breaks longer words."""
    from rich.text import Text

    parts: list[Text] = []
    for text in Text.assemble(*line).split("\n", allow_blank=True):
        plain = text.plain
        leading = len(plain) - len(plain.lstrip(" "))
        hang = min(leading + HANGING, width // 2)
        first, *rest = text.divide(_breaks(plain, width, hang))
        parts += [first, *(Text.assemble(" " * hang, part) for part in rest)]
    for part in parts:
        part.rstrip()
    return parts


_WORD = re.compile(r'`clew [^`]*`\S*|clew [a-z]+ [^\s"]+(?: "[^"]*")?\S*|\S+')
"""What is not broken over lines: a word, and a command of clew, which people copy."""


def _breaks(text: str, width: int, hang: int) -> list[int]:
    """Return where the parts after the first begin; none if the text fits."""
    found, column, after = list[int](), 0, 0
    for word in _WORD.finditer(text) if width_of(text) > width else ():
        column += width_of(text[after : word.end()])
        if after and column > width:
            found.append(word.start())
            column = hang + width_of(word[0])
        after = word.end()
    return found


def columns(rows: Sequence[Sequence[Span]], gap: str = "  ", width: int = 0) -> list[Line]:
    """Return rows as lines with aligned columns; the last column is not padded.

    Where the rows are wider than `width` (0: any is), and little of it is left for the last column, that has a line of
    its own, and so have, on a narrow terminal, all columns but the first.
    """
    widths = [max(width_of(row[i][0]) for row in rows) for i in range(len(rows[0]))] if rows else []
    lines: list[Line] = []
    for *cells, last in rows:
        wide = zip(cells, widths, strict=False)
        padded = [(one + " " * (most - width_of(one)) + gap, style) for (one, style), most in wide]
        lines.append([*padded, last])
    fixed = sum(widths[:-1]) + len(gap) * len(widths[:-1])
    widest = max((sum(width_of(text) for text, _ in line) for line in lines), default=0)
    if not width or widest <= width or fixed + LAST_CHARS <= width:
        return lines
    apart: list[Line] = []
    for *cells, last in lines:
        close = [(f"{text.rstrip()}{gap}", style) for text, style in cells[1:]]
        apart += [cells] if fixed <= width else [cells[:1], [(INDENT, ""), *close]]
        apart.append([(INDENT, ""), last])
    return apart


def width_of(text: str) -> int:
    """Return the width of a text in columns of a terminal: wide characters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def paragraph(label: str, text: str, style: str = "bold") -> list[Line]:
    """Return a text of several lines behind its label, its further lines indented."""
    first, *rest = clean(text, lines=True).strip().splitlines() or [""]
    indent = " " * (len(label) - len(label.lstrip())) + INDENT
    return [[(label, style), (first, "")], *([(f"{indent}{line}", "")] for line in rest)]
