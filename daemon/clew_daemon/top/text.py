"""Lines of the command line as text for textual: what goals and agents wrote is never read as markup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clew_daemon.cli.display.output import Line


def line_text(line: Line) -> Text:
    """Return a line as one text."""
    return Text.assemble(*((text, style) for text, style in line), end="")


def lines_text(lines: Iterable[Line]) -> Text:
    """Return lines below each other."""
    return Text("\n").join(map(line_text, lines))


def cell(text: str, style: str = "") -> Text:
    """Return a cell of a table."""
    return Text(text, style, no_wrap=True)
