"""A table whose rows are replaced without losing the cursor, and without drawing what has not changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from clew_daemon.reading.output import Line


def line_text(line: Line) -> Text:
    """Return a line as one text."""
    return Text.assemble(*((text, style) for text, style in line), end="")


def lines_text(lines: Iterable[Line]) -> Text:
    """Return lines below each other."""
    return Text("\n").join(map(line_text, lines))


def cell(text: str, style: str = "") -> Text:
    """Return a cell of a table."""
    return Text(text, style, no_wrap=True)


class RowTable(DataTable[Text]):
    """Rows by their keys, in a given order; the cursor stays at its key."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("home", "scroll_top", "First", show=False),
        Binding("end", "scroll_bottom", "Last", show=False),
    ]

    def __init__(self, *titles: str) -> None:
        super().__init__(cursor_type="row", zebra_stripes=False, cell_padding=1)
        self._titles = titles
        self._shown: list[tuple[str, Line]] = []

    def on_mount(self) -> None:
        for title in self._titles:
            self.add_column(cell(title, "bold"), key=title)

    @property
    def current(self) -> str:
        """The key of the row at the cursor, "" if there is none."""
        row = self.cursor_row
        return self._shown[row][0] if 0 <= row < len(self._shown) else ""

    def put(self, rows: Sequence[tuple[str, Line]]) -> None:
        """Show these rows: their keys, and their cells."""
        if [key for key, _ in rows] == [key for key, _ in self._shown]:
            self._update_cells(rows)
        else:
            self._replace(rows)
        self._shown = list(rows)

    def _update_cells(self, rows: Sequence[tuple[str, Line]]) -> None:
        for (key, cells), (_, before) in zip(rows, self._shown, strict=True):
            for title, new, old in zip(self._titles, cells, before, strict=True):
                if new != old:
                    self.update_cell(key, title, cell(*new), update_width=True)

    def _replace(self, rows: Sequence[tuple[str, Line]]) -> None:
        current = self.current
        self.clear()
        for key, cells in rows:
            self.add_row(*(cell(*one) for one in cells), key=key)
        keys = [key for key, _ in rows]
        if current in keys:
            self.move_cursor(row=keys.index(current), animate=False)
