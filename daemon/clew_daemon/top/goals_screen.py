"""The list of goals, what needs a person first; one goal, as `clew status GOAL` shows it; one action; the log."""

import shlex
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import DataTable, Input, Log

from clew_daemon.logs.look import plain
from clew_daemon.reading.actions import action_lines, last_actions, took, whole_action
from clew_daemon.reading.goal_list import inbox_lines, listed, now_text, status_cells
from clew_daemon.reading.goal_text import goal_lines, question_lines, shown_action
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.log_tail import LogTail, entries_of
from clew_daemon.reading.output import INDENT, RESULT_STYLE, Line, columns
from clew_daemon.reading.queries import all_goals
from clew_daemon.reading.sanitize import clean, short
from clew_daemon.record.goal_view import GoalDetail, GoalList, GoalView
from clew_daemon.top.screens import BACK, GoalViewScreen, LiveScreen, RowTable, TextPage, line_text
from clew_shared.record.moment import local
from clew_shared.text.words import outcome

ENDED_SHOWN, ACTIONS_SHOWN = 200, 200
TEXT_CHARS, OUTPUT_CHARS = 300, 200_000
LINES_MAX, LINE_CHARS, READ_S = 5_000, 2_000, 0.5  # of the log


class GoalsScreen(LiveScreen):
    """All goals, each in two lines: its status, and what it does; Enter opens one."""

    command = "clew status"

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self._goals: dict[str, GoalView] = {}
        self._inbox: list[Line] = []

    def body(self) -> Sequence[Widget]:
        return [RowTable("", height=2), TextPage("question", before="")]

    def read(self) -> Callable[[], None]:
        found = all_goals(self.instance, ENDED_SHOWN)
        return partial(self._draw, found, listed(found, self.instance.holder))

    def _draw(self, found: GoalList, goals: Sequence[GoalView]) -> None:
        room = max(20, min(TEXT_CHARS, self.size.width - 8))
        self._goals = {goal["id"]: goal for goal in goals}
        self._inbox = inbox_lines(found.get("inbox") or ())
        marks = [("!", "bold magenta") if goal["needs_person"] else (" ", "") for goal in goals]
        heads = [[mark, *status_cells(goal)] for mark, goal in zip(marks, goals, strict=True)]
        rows = {}
        for head, goal in zip(columns(heads, gap=" "), goals, strict=True):
            now = f"\n{INDENT}{short(now_text(goal, time.time()), room)}"
            rows[goal["id"]] = [line_text([*head, (now, "dim")])]
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


class GoalScreen(GoalViewScreen):
    """What a goal asks, and the goal in full above, its last actions below; Enter opens an action."""

    view, shows = "goal", "clew status"

    def below(self) -> Sequence[Widget]:
        question = VerticalScroll(TextPage("question", before=""), classes="asking")
        return [question, *super().below(), RowTable("SEQ", "TIME", "RESULT", "TOOK", "ACTION")]

    def on_mount(self) -> None:
        self.query_one(RowTable).focus()

    def read(self) -> Callable[[], None]:
        draw_page = super().read()
        found, _ = last_actions(self.instance, self.goal_id, ACTIONS_SHOWN, None, outputs=False)
        flying = self.goal["in_flight"] if self.goal else []
        rows = {one["seq"]: one for one in (*flying, *found)}
        actions = {str(n): _cells(rows[n], self.size.width) for n in sorted(rows, reverse=True)}
        question = question_lines(self.goal) if self.goal else []

        def draw() -> None:
            draw_page()
            self.query_one(".question", TextPage).show(question)
            self.query_one(".asking").display = bool(question)
            self.query_one(RowTable).put(actions)

        return draw

    def lines(self, detail: GoalDetail) -> list[Line]:
        return goal_lines(detail, report=self.instance.report_of(self.goal_id), at=time.time())

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        seq = int(str(event.row_key.value))
        self.app.push_screen(ActionScreen(self.instance, self.goal_id, seq))


def _cells(action: Mapping[str, Any], width: int) -> list[Text]:
    result = str(action.get("result") or "")
    return [
        Text(f"#{action['seq']}"),
        Text(local(action["timestamp"])[-8:] if "timestamp" in action else "", "dim"),
        Text(clean(outcome(result)), RESULT_STYLE.get(result, "cyan")),
        Text(took(action) if "duration_s" in action else "", "dim"),
        Text(short(shown_action(action), max(20, min(TEXT_CHARS, width - 45))), no_wrap=True),
    ]


class ActionScreen(LiveScreen):
    """One action in full."""

    BINDINGS: ClassVar[list[BindingType]] = [BACK]

    def __init__(self, instance: Instance, goal: str, seq: int) -> None:
        self.command = f"clew show {shlex.quote(goal)} {seq}"
        super().__init__(instance)
        self._goal_id, self._seq = goal, seq

    def read(self) -> Callable[[], None]:
        found = whole_action(self.instance, self._goal_id, self._seq)
        output = found["output"] or ""
        lines = action_lines(self._goal_id, {**found, "output": output[:OUTPUT_CHARS]})
        if (more := len(output) - OUTPUT_CHARS) > 0:
            lines.append([(clean(f"… and {more:,} more characters: {self.command}"), "dim")])
        return partial(self.page, lines)


class LogScreen(LiveScreen):
    """The last lines of the log and new ones, all or those of a goal; `/` shows only lines that contain a text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "leave", "Back"),
        ("slash", "search", "Filter"),
    ]

    def __init__(self, instance: Instance, goal: str | None = None) -> None:
        self.command = f"clew logs -f {shlex.quote(goal)}" if goal else "clew logs -f"
        super().__init__(instance)
        self._goal_id = goal
        self._tail = LogTail(instance.log_file)
        self._more = self._tail.last
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._wanted = ""

    def body(self) -> Sequence[Widget]:
        search = Input(placeholder="Only lines that contain …")
        search.display = False
        return [Log(max_lines=LINES_MAX, highlight=False), search]

    def on_mount(self) -> None:
        self.query_one(Log).focus()
        self.set_interval(READ_S, self.renew)

    def on_unmount(self) -> None:
        self._tail.close()

    def read(self) -> Callable[[], None]:
        """Read the lines that are new."""
        found, self._more = self._more()[-LINES_MAX:], self._tail.added
        entries = entries_of(found, self._goal_id)
        lines = [short(plain(entry), LINE_CHARS) for entry in entries]
        return partial(self._add, lines)

    def _add(self, lines: list[str]) -> None:
        self._lines.extend(lines)
        if lines:
            self.query_one(Log).write_lines(self._wanted_of(lines))

    def _wanted_of(self, lines: Iterable[str]) -> list[str]:
        return [line for line in lines if self._wanted in line.lower()]

    def action_search(self) -> None:
        search = self.query_one(Input)
        search.display = True
        search.focus()

    def action_leave(self) -> None:
        """Leave the filter, or the log if there is none."""
        search = self.query_one(Input)
        if not search.display:
            self.app.pop_screen()
            return
        search.value, search.display = "", False
        self.query_one(Log).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._wanted = event.value.lower()
        log = self.query_one(Log)
        log.clear()
        log.write_lines(self._wanted_of(self._lines) or [f"No line contains {event.value!r}."])

    def on_input_submitted(self) -> None:
        self.query_one(Log).focus()
