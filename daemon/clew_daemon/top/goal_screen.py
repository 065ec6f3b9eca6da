"""One goal: what `clew status GOAL` shows, and its last actions."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Static

from clew_daemon.cli.display.output import Line
from clew_daemon.top.home import GoalPage, GoalRow, HomeReader
from clew_daemon.top.screens import LiveScreen
from clew_daemon.top.tables import RowTable
from clew_daemon.top.text import lines_text

if TYPE_CHECKING:
    from textual.binding import BindingType
    from textual.widget import Widget


class GoalScreen(LiveScreen[GoalPage]):
    """A goal in full above, its actions below; Enter opens an action."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "app.pop_screen", "Back")]

    def __init__(self, home: HomeReader, goal: str) -> None:
        self.command = f"clew status {shlex.quote(goal)}"
        super().__init__(home)
        self._goal_id = goal
        self.goal: GoalRow | None = None
        self._text = Text()

    def body(self) -> list[Widget]:
        table = RowTable("SEQ", "TIME", "EPOCH", "RESULT", "TOOK", "ACTION")
        question = VerticalScroll(Static(classes="question"), classes="asking")
        return [question, VerticalScroll(Static(classes="page"), classes="whole"), table]

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(RowTable).focus()

    def read(self) -> GoalPage:
        return self.home.goal(self._goal_id)

    def display_read(self, found: GoalPage) -> None:
        self.goal = found.row
        self.query_one(".question", Static).update(lines_text(found.question))
        self.query_one(".asking").display = bool(found.question)
        text = lines_text(found.lines)
        if text != self._text:  # else a selection of text would be lost
            self._text = text
            self.query_one(".page", Static).update(text)
        self.query_one(RowTable).put([(str(row.seq), row.cells) for row in found.actions])

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        seq = int(str(event.row_key.value))
        self.app.push_screen(ActionScreen(self.home, self._goal_id, seq))


class ActionScreen(LiveScreen[list[Line]]):
    """One action in full."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "app.pop_screen", "Back")]

    def __init__(self, home: HomeReader, goal: str, seq: int) -> None:
        self.command = f"clew show {shlex.quote(goal)} {seq}"
        super().__init__(home)
        self._goal_id, self._seq = goal, seq
        self._text = Text()

    def body(self) -> list[Widget]:
        return [VerticalScroll(Static(classes="page"))]

    def read(self) -> list[Line]:
        return self.home.action(self._goal_id, self._seq)

    def display_read(self, found: list[Line]) -> None:
        text = lines_text(found)
        if text != self._text:
            self._text = text
            self.query_one(".page", Static).update(text)
