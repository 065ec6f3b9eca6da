"""The list of goals, what needs a person first; one goal, as `clew status GOAL` shows it; and one action in full."""

import shlex
import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import DataTable

from clew_daemon.reading.actions import action_lines, last_actions, whole_action
from clew_daemon.reading.goal_list import GoalView, in_view, inbox_lines, now_text, status_cells
from clew_daemon.reading.goal_text import goal_lines, question_lines, shown_action
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import INDENT, RESULT_STYLE, Line, columns
from clew_daemon.reading.queries import all_goals
from clew_daemon.reading.sanitize import clean, short
from clew_daemon.top.screens import BACK, GoalViewScreen, LiveScreen
from clew_daemon.top.tables import RowTable, TextPage, line_text, scrolling
from clew_shared.record.moment import local

ENDED_SHOWN, ACTIONS_SHOWN = 200, 200
TEXT_CHARS, OUTPUT_CHARS = 300, 200_000


class GoalsScreen(LiveScreen[Mapping[str, Any]]):
    """All goals, each in two lines: its status, and what it does; Enter opens one."""

    command = "clew status"

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self._goals: dict[str, GoalView] = {}
        self._inbox: list[Line] = []

    def body(self) -> list[Widget]:
        return [RowTable("", height=2), TextPage("question", before="")]

    def read(self) -> Mapping[str, Any]:
        return all_goals(self.instance, ENDED_SHOWN)

    def display_read(self, found: Mapping[str, Any]) -> None:
        is_stopped = {"stopped": found["daemon"] is None}
        goals = [{**goal, **is_stopped} for goal in in_view(found["goals"])]
        self._goals = {goal["id"]: goal for goal in goals}
        self._inbox = inbox_lines(found.get("inbox") or ())
        marks = [("!", "bold magenta") if goal.get("needs_person") else (" ", "") for goal in goals]
        cells = zip(marks, map(status_cells, goals), strict=True)
        rows = []
        for head, goal in zip(columns([[m, *c] for m, c in cells], gap=" "), goals, strict=True):
            now = f"\n{INDENT}{short(now_text(goal, time.time()), TEXT_CHARS)}"
            rows.append((goal["id"], [line_text([*head, (now, "dim")])]))
        self.query_one(RowTable).put(rows)
        self.on_data_table_row_highlighted()

    def on_data_table_row_highlighted(self) -> None:
        """Show what the goal at the cursor asks a person and what one can do, and what lies in the inbox."""
        lines = [*(question_lines(self.goal) if self.goal else []), *self._inbox]
        shown = self.query_one(".question", TextPage)
        shown.show(lines)
        shown.display = bool(lines)

    @property
    def goal(self) -> GoalView | None:
        """The goal that keys are about."""
        return self._goals.get(self.query_one(RowTable).current)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        self.app.push_screen(GoalScreen(self.instance, str(event.row_key.value)))


Row = tuple[str, list[Text]]


class GoalScreen(GoalViewScreen[tuple[list[Line], list[Line], list[Row]]]):
    """What a goal asks, and the goal in full above, its last actions below; Enter opens an action."""

    view, shows = "goal", "clew status"

    def body(self) -> list[Widget]:
        table = RowTable("SEQ", "TIME", "RESULT", "TOOK", "ACTION")
        question = scrolling(TextPage("question", before=""), classes="asking")
        return [question, scrolling(TextPage()), table]

    def on_mount(self) -> None:
        self.query_one(RowTable).focus()

    def read_view(self, detail: GoalView) -> tuple[list[Line], list[Line], list[Row]]:
        lines = goal_lines(detail, report=self.instance.report_of(self.goal_id), at=time.time())
        found, _ = last_actions(self.instance, self.goal_id, ACTIONS_SHOWN, outputs=False)
        rows = {one["seq"]: one for one in (*detail["in_flight"], *found)}
        actions = [(str(seq), list(_cells(rows[seq]))) for seq in sorted(rows, reverse=True)]
        return question_lines(detail), lines, actions

    def display_view(self, found: tuple[list[Line], list[Line], list[Row]]) -> None:
        question, lines, actions = found
        self.query_one(".question", TextPage).show(question)
        self.query_one(".asking").display = bool(question)
        self.page(lines)
        self.query_one(RowTable).put(actions)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        seq = int(str(event.row_key.value))
        self.app.push_screen(ActionScreen(self.instance, self.goal_id, seq))


def _cells(action: Mapping[str, Any]) -> Iterator[Text]:
    """Yield the cells of an action, which runs if it has no result."""
    result, took = str(action.get("result") or "running"), action.get("duration_s")
    yield Text(f"#{action['seq']}")
    yield Text(local(action["timestamp"])[-8:] if "timestamp" in action else "", "dim")
    yield Text(result, RESULT_STYLE.get(result, "cyan"))
    yield Text("" if took is None else f"{took:.1f} s", "dim")
    yield Text(short(shown_action(action), TEXT_CHARS), no_wrap=True)


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
