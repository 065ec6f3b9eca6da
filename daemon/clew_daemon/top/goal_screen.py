"""One goal: what `clew status GOAL` shows, and its last actions."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import DataTable, Static

from clew_daemon.reading.output import Line
from clew_daemon.top.home import GoalPage, HomeReader
from clew_daemon.top.screens import LiveScreen
from clew_daemon.top.tables import RowTable, lines_text
from clew_daemon.top.views import GoalViewScreen

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


class GoalScreen(GoalViewScreen[GoalPage]):
    """A goal in full above, its actions below; Enter opens an action."""

    view = "goal"

    def __init__(self, home: HomeReader, goal: str) -> None:
        self.command = f"clew status {shlex.quote(goal)}"
        super().__init__(home, goal)

    def body(self) -> list[Widget]:
        table = RowTable("SEQ", "TIME", "RESULT", "TOOK", "ACTION")
        question = scrolling(TextPage("question", before=""), classes="asking")
        return [question, scrolling(TextPage()), table]

    def on_mount(self) -> None:
        self.query_one(RowTable).focus()

    def read_view(self, detail: Mapping[str, Any]) -> GoalPage:
        return self.home.goal(detail)

    def display_view(self, found: GoalPage) -> None:
        self.query_one(".question", TextPage).show(found.question)
        self.query_one(".asking").display = bool(found.question)
        self.query_one(".page", TextPage).show(found.lines)
        self.query_one(RowTable).put([(str(row.seq), row.cells) for row in found.actions])

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        seq = int(str(event.row_key.value))
        self.app.push_screen(ActionScreen(self.home, self.goal_id, seq))


class ActionScreen(LiveScreen[list[Line]]):
    """One action in full."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "app.pop_screen", "Back")]

    def __init__(self, home: HomeReader, goal: str, seq: int) -> None:
        self.command = f"clew show {shlex.quote(goal)} {seq}"
        super().__init__(home)
        self._goal_id, self._seq = goal, seq

    def body(self) -> list[Widget]:
        return [scrolling(TextPage())]

    def read(self) -> list[Line]:
        return self.home.action(self._goal_id, self._seq)

    def display_read(self, found: list[Line]) -> None:
        self.query_one(TextPage).show(found)
