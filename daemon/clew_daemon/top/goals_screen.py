"""The list of goals: what needs a person comes first."""

from __future__ import annotations

import time
from typing import Any

from rich.text import Text
from textual.widget import Widget
from textual.widgets import DataTable

from clew_daemon.reading.goal_list import GoalView, in_view, inbox_lines, now_text, status_cells
from clew_daemon.reading.goal_text import question_lines
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import INDENT, Line, columns
from clew_daemon.reading.queries import all_goals
from clew_daemon.reading.sanitize import short
from clew_daemon.top.goal_screen import GoalScreen
from clew_daemon.top.screens import LiveScreen
from clew_daemon.top.tables import RowTable, TextPage, line_text

ENDED_SHOWN = 200
NOW_CHARS = 300


class GoalsScreen(LiveScreen[dict[str, Any]]):
    """All goals, each in two lines: its status, and what it does; Enter opens one."""

    command = "clew status"

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self._goals: dict[str, GoalView] = {}
        self._inbox: list[Line] = []

    def body(self) -> list[Widget]:
        return [RowTable("", height=2), TextPage("question", before="")]

    def read(self) -> dict[str, Any]:
        return all_goals(self.instance, ENDED_SHOWN)

    def display_read(self, found: dict[str, Any]) -> None:
        is_stopped = {"stopped": found["daemon"] is None}
        goals = [{**goal, **is_stopped} for goal in in_view(found["goals"])]
        self._goals = {goal["id"]: goal for goal in goals}
        self._inbox = inbox_lines(found.get("inbox") or ())
        heads = columns([[_mark(goal), *status_cells(goal)] for goal in goals], gap=" ")
        rows = [
            (goal["id"], [_two_lines(head, goal)]) for head, goal in zip(heads, goals, strict=True)
        ]
        self.query_one(RowTable).put(rows)
        self._ask()

    def _ask(self) -> None:
        """Show what the goal at the cursor asks a person and what one can do, and what lies in the inbox."""
        goal = self.goal
        lines = [*(question_lines(goal) if goal else []), *self._inbox]
        shown = self.query_one(".question", TextPage)
        shown.show(lines)
        shown.display = bool(lines)

    def on_data_table_row_highlighted(self) -> None:
        self._ask()

    @property
    def goal(self) -> GoalView | None:
        """The goal that keys are about."""
        return self._goals.get(self.query_one(RowTable).current)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        self.app.push_screen(GoalScreen(self.instance, str(event.row_key.value)))


def _mark(goal: GoalView) -> tuple[str, str]:
    return ("!", "bold magenta") if goal.get("needs_person") else (" ", "")


def _two_lines(head: Line, goal: GoalView) -> Text:
    now = f"\n{INDENT}{short(now_text(goal, time.time()), NOW_CHARS)}"
    return line_text([*head, (now, "dim")])
