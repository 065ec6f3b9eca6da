"""One goal: what `clew status GOAL` shows, and its last actions; and one action in full."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import DataTable

from clew_daemon.reading.actions import action_lines, last_actions, whole_action
from clew_daemon.reading.goal_list import GoalView
from clew_daemon.reading.goal_text import goal_lines, question_lines, shown_action
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import RESULT_STYLE, Line
from clew_daemon.reading.sanitize import clean, short
from clew_daemon.top.screens import BACK, GoalViewScreen, LiveScreen
from clew_daemon.top.tables import RowTable, TextPage, scrolling
from clew_shared.record.moment import local

ACTIONS_SHOWN = 200
OUTPUT_CHARS = 200_000


@dataclass(frozen=True, slots=True)
class GoalPage:
    """A goal in full, what it asks a person, and its last actions, the latest first, by their numbers."""

    question: list[Line]
    lines: list[Line]
    actions: list[tuple[str, list[Text]]]


class GoalScreen(GoalViewScreen[GoalPage]):
    """A goal in full above, its actions below; Enter opens an action."""

    view, shows = "goal", "clew status"

    def body(self) -> list[Widget]:
        table = RowTable("SEQ", "TIME", "RESULT", "TOOK", "ACTION")
        question = scrolling(TextPage("question", before=""), classes="asking")
        return [question, scrolling(TextPage()), table]

    def on_mount(self) -> None:
        self.query_one(RowTable).focus()

    def read_view(self, detail: GoalView) -> GoalPage:
        lines = goal_lines(detail, report=self.instance.report_of(self.goal_id), at=time.time())
        found, _ = last_actions(self.instance, self.goal_id, ACTIONS_SHOWN, outputs=False)
        rows = {one["seq"]: one for one in (*detail["in_flight"], *found)}
        actions = [(str(seq), _cells(rows[seq])) for seq in sorted(rows, reverse=True)]
        return GoalPage(question_lines(detail), lines, actions)

    def display_view(self, found: GoalPage) -> None:
        self.query_one(".question", TextPage).show(found.question)
        self.query_one(".asking").display = bool(found.question)
        self.page(found.lines)
        self.query_one(RowTable).put(found.actions)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        seq = int(str(event.row_key.value))
        self.app.push_screen(ActionScreen(self.instance, self.goal_id, seq))


def _cells(action: GoalView) -> list[Text]:
    """Return the cells of an action, which runs if it has no result."""
    result, took = str(action.get("result") or "running"), action.get("duration_s")
    return [
        Text(f"#{action['seq']}"),
        Text(local(action["timestamp"])[-8:] if "timestamp" in action else "", "dim"),
        Text(result, RESULT_STYLE.get(result, "cyan")),
        Text("" if took is None else f"{took:.1f} s", "dim"),
        Text(short(shown_action(action), 300), no_wrap=True),
    ]


class ActionScreen(LiveScreen[list[Line]]):
    """One action in full."""

    BINDINGS: ClassVar[list[BindingType]] = [BACK]

    def __init__(self, instance: Instance, goal: str, seq: int) -> None:
        self.command = f"clew show {shlex.quote(goal)} {seq}"
        super().__init__(instance)
        self._goal_id, self._seq = goal, seq

    def read(self) -> list[Line]:
        found = whole_action(self.instance, self._goal_id, self._seq)
        more = len(found["output"] or "") - OUTPUT_CHARS
        if more <= 0:
            return action_lines(self._goal_id, found)
        rest = f"… and {more:,} more characters: {self.command}"
        cut = {**found, "output": found["output"][:OUTPUT_CHARS]}
        return [*action_lines(self._goal_id, cut), [(clean(rest), "dim")]]

    def display_read(self, found: list[Line]) -> None:
        self.page(found)
