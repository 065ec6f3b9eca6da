"""The list of goals: what needs a person comes first."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import DataTable

from clew_daemon.reading.output import Line
from clew_daemon.top.goal_screen import GoalScreen, TextPage
from clew_daemon.top.home import GoalList, GoalRow, HomeReader
from clew_daemon.top.screens import LiveScreen
from clew_daemon.top.tables import RowTable


class GoalTable(RowTable):
    """The table of all goals; the last line of the screen names its key."""

    BINDINGS: ClassVar[list[BindingType]] = [("enter", "select_cursor", "Open")]


class GoalsScreen(LiveScreen[GoalList]):
    """All goals; Enter opens one."""

    command = "clew status"

    def __init__(self, home: HomeReader) -> None:
        super().__init__(home)
        self.rows: dict[str, GoalRow] = {}
        self.questions: dict[str, list[Line]] = {}
        self.inbox: list[Line] = []

    def body(self) -> list[Widget]:
        table = GoalTable(" ", "GOAL", "STATUS", "DONE", "AGE", "AGENT", "NOW")
        return [table, TextPage("question", before="")]

    def read(self) -> GoalList:
        return self.home.goals()

    def display_read(self, found: GoalList) -> None:
        self.rows = {row.id: row for row in found.rows}
        self.questions, self.inbox = found.questions, found.inbox
        mark = {True: ("!", "bold magenta"), False: (" ", "")}
        cells = [(row.id, [mark[row.needs_you], *row.cells]) for row in found.rows]
        self.query_one(RowTable).put(cells)
        self._ask()

    def _ask(self) -> None:
        """Show what the goal at the cursor asks a person, or what it does now."""
        row = self.goal
        lines = [] if row is None else self.questions.get(row.id) or [[row.cells[-1]]]
        lines = [*lines, *self.inbox]
        shown = self.query_one(".question", TextPage)
        shown.show(lines)
        shown.display = bool(lines)

    def on_data_table_row_highlighted(self) -> None:
        self._ask()

    @property
    def goal(self) -> GoalRow | None:
        """The goal that keys are about."""
        return self.rows.get(self.query_one(RowTable).current)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        self.app.push_screen(GoalScreen(self.home, str(event.row_key.value)))
