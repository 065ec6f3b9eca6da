"""The timeline of a goal in characters: a lane for each worker, with its actions, refusals and end."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widget import Widget

from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import RESULT_STYLE, Line, Span
from clew_daemon.reading.sanitize import clean, counted, short
from clew_daemon.reading.timelines import Timelines
from clew_daemon.record.timeline import (
    Lane,
    LaneColumns,
    Mark,
    RefusedAction,
    Timeline,
    column_of,
    lane_columns,
)
from clew_daemon.top.goal_screen import ActionScreen
from clew_daemon.top.screens import GoalDetail, GoalViewScreen
from clew_daemon.top.tables import lines_text
from clew_shared.record.moment import local, roughly
from clew_shared.text.words import ending

NAME_COLUMNS = 8
ENDING_COLUMNS = 20
COLUMNS_MIN = 10
TURNS_SHOWN = 5
REFUSALS_SHOWN = 5
AT_WORK = "at work"
MARKS = {
    "success": ("■", "done"),
    "running": (">", "running"),
    "failure": ("x", "failed"),
    "timeout": ("x", "failed"),
    "error": ("x", "failed"),
    "interrupted": ("~", "interrupted"),
    "blocked": ("▲", "refused"),
}
"""The character of each result, and what it means: nothing depends on colours."""
LIFE, DIED, IDLE = "─", "X", "┊"
TURNS = {
    "blocked": "B",
    "feedback": "F",
    "waiting": "W",
    "completed": "C",
    "failed": "C",
    "cancelled": "C",
}
"""The letter of each moment that concerns the whole goal; those with a C ended it."""

TimelineView = tuple[Timeline, tuple[RefusedAction, ...]]


class TimelineChart(Widget, can_focus=True):
    """Lanes with marks; the chosen one is shown reversed, and described below."""

    DEFAULT_CSS = "TimelineChart { height: auto; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("left", "beside(-1)", ""),
        ("right", "beside(1)", ""),
        ("enter", "open", ""),
    ]

    class Opened(Message):
        """A mark was opened; `seq` is the number of its action."""

        def __init__(self, seq: int) -> None:
            super().__init__()
            self.seq = seq

    def __init__(self) -> None:
        super().__init__()
        self._view: TimelineView | None = None
        self._chosen: int | None = None

    def put(self, found: TimelineView) -> None:
        """Show a timeline and the last refusals; the chosen mark stays chosen."""
        if found != self._view:
            self._view = found
            self.refresh(layout=True)

    def render(self) -> Text:
        if self._view is None or not self._view[0].lanes:
            return Text("It has not started." if self._view else "")
        return lines_text(self._lines(*self._view))

    @property
    def _columns(self) -> int:
        return max(COLUMNS_MIN, self.size.width - NAME_COLUMNS - ENDING_COLUMNS)

    def _marks(self) -> list[tuple[Lane, Mark]]:
        """Return the marks that can be chosen, lane by lane, each once."""
        lanes = self._view[0].lanes if self._view else ()
        found = [lane_columns(lane, self._columns) for lane in lanes]
        return [
            (one.lane, mark)
            for one in found
            for mark in {mark.seq: mark for mark in one.marks.values()}.values()
        ]

    def _place(self) -> int:
        """Return where the chosen mark is among all, by default the last one; -1 where there is none."""
        marks = self._marks()
        found = [at for at, (_, mark) in enumerate(marks) if mark.seq == self._chosen]
        return found[0] if found else len(marks) - 1

    def action_beside(self, step: int) -> None:
        marks = self._marks()
        at = self._place() + step
        if 0 <= at < len(marks):
            self._chosen = marks[at][1].seq
            self.refresh(layout=True)

    def action_open(self) -> None:
        if (at := self._place()) >= 0:
            self.post_message(self.Opened(self._marks()[at][1].seq))

    def _lines(self, found: Timeline, refusals: tuple[RefusedAction, ...]) -> list[Line]:
        columns, marks, at = self._columns, self._marks(), self._place()
        lane, chosen = marks[at] if at >= 0 else (None, None)
        gaps = {column_of(gap.at, columns) for gap in found.gaps}
        return [
            _axis_line(found, columns),
            *([_turns_line(found, columns)] if found.turns else []),
            *(_lane_line(lane_columns(one, columns), gaps, columns, chosen) for one in found.lanes),
            [("", "")],
            *_chosen_lines(chosen, lane),
            *([(one.why, "")] for one in refusals if chosen and one.seq == chosen.seq),
            [("", "")],
            *_legend_lines(found, marks),
            *_refusal_lines(refusals),
        ]


def _axis_line(found: Timeline, columns: int) -> Line:
    """Return the times of both ends."""
    began, ended = _clock(found.began), _clock(found.began + found.seconds)
    worker = "worker".ljust(NAME_COLUMNS)
    return [(worker, "bold"), (began + ended.rjust(columns - len(began)), "dim")]


def _clock(at: float) -> str:
    return local(at).rpartition(" ")[2]


def _turns_line(found: Timeline, columns: int) -> Line:
    cells = [" "] * columns
    for turn in found.turns:
        cells[column_of(turn.at, columns)] = TURNS.get(turn.kind, "?")
    return [("goal".ljust(NAME_COLUMNS), "dim"), ("".join(cells).rstrip(), "bold")]


def _lane_line(one: LaneColumns, gaps: set[int], columns: int, chosen: Mark | None) -> Line:
    lane = one.lane
    name = f"{lane.epoch}.{lane.attempt}".ljust(NAME_COLUMNS)
    cells = [_cell(one, at, columns, chosen, is_gap=at in gaps) for at in range(columns)]
    how = short(ending(lane.ending) or AT_WORK, ENDING_COLUMNS - 1)
    return [(name, ""), *cells, (f" {how}", "red" if lane.crashed else "dim")]


def _cell(one: LaneColumns, at: int, columns: int, chosen: Mark | None, *, is_gap: bool) -> Span:
    if one.lane.crashed and at == min(one.last + 1, columns - 1):
        return DIED, "bold red"
    if mark := one.marks.get(at):
        style = RESULT_STYLE.get(mark.result, "cyan")
        is_chosen = chosen is not None and mark.seq == chosen.seq
        return MARKS.get(mark.result, ("?", ""))[0], f"{style} reverse" if is_chosen else style
    if is_gap:
        return IDLE, "dim"
    return (LIFE if one.first <= at <= one.last else " "), "dim"


def _chosen_lines(mark: Mark | None, lane: Lane | None) -> list[Line]:
    """Return what the chosen mark is, and how its worker ended."""
    if mark is None or lane is None:
        return [[("no actions yet", "dim")]]
    worst = f", the worst of {mark.count} here" if mark.count > 1 else ""
    what = MARKS.get(mark.result, ("", mark.result))[1]
    ended = f"ended: {clean(ending(lane.ending))}" if lane.ending else AT_WORK
    about = f"worker {lane.epoch}, attempt {lane.attempt}"
    about += f", agent {clean(lane.agent)}" if lane.agent else ""
    said = f"{worst}  {short(mark.label, 160)}"
    style = RESULT_STYLE.get(mark.result, "cyan")
    return [
        [(f"#{mark.seq} ", "bold"), (what, style), (said, "")],
        [(f"{about}; {ended}", "dim")],
    ]


def _legend_lines(found: Timeline, marks: Iterable[tuple[Lane, Mark]]) -> list[Line]:
    """Return what the characters mean, as far as they occur, and the moments that concern the whole goal."""
    results = {mark.result for _, mark in marks}
    known = {char: text for result, (char, text) in MARKS.items() if result in results}
    known |= {DIED: "worker died"} if any(lane.crashed for lane in found.lanes) else {}
    gaps = ", ".join(roughly(gap.seconds) for gap in found.gaps)
    known |= {IDLE: f"idle, squeezed: {gaps}"} if gaps else {}
    legend = "   ".join(f"{char} {text}" for char, text in known.items())
    earlier = f"{counted(found.earlier, 'earlier worker')} left out" if found.earlier else ""
    lines: list[Line] = [[(text, "dim")] for text in (legend, earlier) if text]
    for turn in found.turns[-TURNS_SHOWN:]:
        text = f" {turn.kind}{f': {clean(turn.text)}' if turn.text else ''}"
        lines.append([(TURNS.get(turn.kind, "?"), "bold"), (text, "")])
    return lines


def _refusal_lines(refusals: tuple[RefusedAction, ...]) -> list[Line]:
    """Return the last refusals with their reasons, the latest first."""
    shown = refusals[: -REFUSALS_SHOWN - 1 : -1]
    head: list[Line] = [[("", "")], [("last refused:", "bold")]] if shown else []
    rows: list[Line] = [
        [
            (f"#{one.seq} ", ""),
            (short(one.why, 160), "magenta"),
            (f"  {short(one.label, 160)}", ""),
        ]
        for one in shown
    ]
    return [*head, *rows]


class TimelineScreen(GoalViewScreen[TimelineView]):
    """The timeline; Enter opens the action that is chosen in it."""

    view = "timeline"
    keys = (("← →", "Choose", ""), ("enter", "Open", "screen.open"))

    def __init__(self, instance: Instance, goal: str) -> None:
        self.command = f"clew history {shlex.quote(goal)}"
        super().__init__(instance, goal)
        self._known = Timelines(instance)

    def body(self) -> list[Widget]:
        return [VerticalScroll(TimelineChart(), classes="whole", can_focus=False)]

    def on_mount(self) -> None:
        self.query_one(TimelineChart).focus()

    def read_view(self, detail: GoalDetail) -> TimelineView:
        return self._known.of(self.goal_id, detail["ended_at"])

    def display_view(self, found: TimelineView) -> None:
        self.query_one(TimelineChart).put(found)

    def action_open(self) -> None:
        self.query_one(TimelineChart).action_open()

    def on_timeline_chart_opened(self, event: TimelineChart.Opened) -> None:
        self.app.push_screen(ActionScreen(self.instance, self.goal_id, event.seq))
