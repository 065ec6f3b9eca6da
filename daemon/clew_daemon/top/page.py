"""A page of text that scrolls, and is drawn again only where it has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.containers import VerticalScroll
from textual.widgets import Static

from clew_daemon.top.text import lines_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clew_daemon.cli.display.output import Line

READING = "reading …"


class TextPage(Static):
    """Lines of text; showing the same ones again keeps what is selected."""

    def __init__(self, classes: str = "page", *, before: str = READING) -> None:
        self._text = Text(before, "dim")
        super().__init__(self._text, classes=classes)

    def show(self, lines: Iterable[Line]) -> None:
        """Show these lines instead."""
        text = lines_text(lines)
        if text != self._text:
            self._text = text
            self.update(text)


def scrolling(*pages: TextPage, classes: str = "whole") -> VerticalScroll:
    """Return pages below each other that scroll together."""
    return VerticalScroll(*pages, classes=classes)
