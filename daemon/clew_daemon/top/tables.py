"""Text and tables that are shown again and again: what is selected stays, and what has not changed is not drawn."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Static

from clew_daemon.reading.output import Line


def line_text(line: Line) -> Text:
    """Return a line as one text."""
    return Text.assemble(*((text, style) for text, style in line), end="", no_wrap=True)


def lines_text(lines: Iterable[Line]) -> Text:
    """Return lines below each other."""
    return Text("\n").join(map(line_text, lines))


class TextPage(Static):
    """Lines of text; showing the same ones again keeps what is selected."""

    def __init__(self, classes: str = "page", *, before: str = "reading …") -> None:
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


class RowTable(DataTable[Text]):
    """Rows by their keys, in a given order; the cursor stays at its key."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("home", "scroll_top", "First", show=False),
        Binding("end", "scroll_bottom", "Last", show=False),
        ("enter", "select_cursor", "Open"),
    ]

    def __init__(self, *titles: str, height: int = 1) -> None:
        super().__init__(cursor_type="row", cell_padding=1, show_header=any(titles))
        self._titles, self._height = titles, height
        self._shown: list[tuple[str, list[Text]]] = []

    def on_mount(self) -> None:
        for title in self._titles:
            self.add_column(Text(title, "bold"), key=title)

    @property
    def current(self) -> str:
        """The key of the row at the cursor, "" if there is none."""
        row = self.cursor_row
        return self._shown[row][0] if 0 <= row < len(self._shown) else ""

    def put(self, rows: Sequence[tuple[str, list[Text]]]) -> None:
        """Show these rows: their keys, and their cells."""
        if [key for key, _ in rows] == [key for key, _ in self._shown]:
            for (key, cells), (_, before) in zip(rows, self._shown, strict=True):
                for title, new, old in zip(self._titles, cells, before, strict=True):
                    if new != old:
                        self.update_cell(key, title, new, update_width=True)
        else:
            self._replace(rows)
        self._shown = list(rows)

    def _replace(self, rows: Sequence[tuple[str, list[Text]]]) -> None:
        current = self.current
        self.clear()
        for key, cells in rows:
            self.add_row(*cells, key=key, height=self._height)
        keys = [key for key, _ in rows]
        if current in keys:
            self.move_cursor(row=keys.index(current), animate=False)
