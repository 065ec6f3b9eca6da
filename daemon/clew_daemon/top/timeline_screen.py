"""The timeline of a goal in characters: a lane for each worker, with its actions, refusals and end."""

from __future__ import annotations

import shlex

from textual.widget import Widget

from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import RESULT_STYLE, Line, Span
from clew_daemon.reading.sanitize import clean, counted, short
from clew_daemon.reading.timelines import Timelines
from clew_daemon.record.timeline import (
    LaneColumns,
    RefusedAction,
    Timeline,
    column_of,
    lane_columns,
)
from clew_daemon.top.screens import GoalDetail, GoalViewScreen
from clew_daemon.top.tables import TextPage, scrolling
from clew_shared.record.moment import local, roughly
from clew_shared.text.words import ending

NAME_COLUMNS = 8
MARGIN = 2
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


def timeline_lines(found: Timeline, refusals: tuple[RefusedAction, ...], width: int) -> list[Line]:
    """Return a lane for each worker, the moments of the whole goal, what the characters mean, and the last refusals."""
    if not found.lanes:
        return [[("It has not started.", "")]]
    columns = max(COLUMNS_MIN, width - NAME_COLUMNS - ENDING_COLUMNS)
    lanes = [lane_columns(lane, columns) for lane in found.lanes]
    gaps = {column_of(gap.at, columns) for gap in found.gaps}
    return [
        _axis_line(found, columns),
        *([_turns_line(found, columns)] if found.turns else []),
        *(_lane_line(one, gaps, columns) for one in lanes),
        [("", "")],
        *_legend_lines(found),
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


def _lane_line(one: LaneColumns, gaps: set[int], columns: int) -> Line:
    lane = one.lane
    name = f"{lane.epoch}.{lane.attempt}".ljust(NAME_COLUMNS)
    cells = [_cell(one, at, columns, is_gap=at in gaps) for at in range(columns)]
    how = short(ending(lane.ending) or AT_WORK, ENDING_COLUMNS - 1)
    return [(name, ""), *cells, (f" {how}", "red" if lane.crashed else "dim")]


def _cell(one: LaneColumns, at: int, columns: int, *, is_gap: bool) -> Span:
    if one.lane.crashed and at == min(one.last + 1, columns - 1):
        return DIED, "bold red"
    if mark := one.marks.get(at):
        return MARKS.get(mark.result, ("?", ""))[0], RESULT_STYLE.get(mark.result, "cyan")
    if is_gap:
        return IDLE, "dim"
    return (LIFE if one.first <= at <= one.last else " "), "dim"


def _legend_lines(found: Timeline) -> list[Line]:
    """Return what the characters mean, as far as they occur, and the moments that concern the whole goal."""
    results = {mark.result for lane in found.lanes for mark in lane.marks}
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
    """The timeline; the actions are in the first view of the goal."""

    view = "timeline"

    def __init__(self, instance: Instance, goal: str) -> None:
        self.command = f"clew history {shlex.quote(goal)}"
        super().__init__(instance, goal)
        self._known = Timelines(instance)

    def body(self) -> list[Widget]:
        return [scrolling(TextPage())]

    def read_view(self, detail: GoalDetail) -> TimelineView:
        return self._known.of(self.goal_id, detail["ended_at"])

    def display_view(self, found: TimelineView) -> None:
        lines = timeline_lines(*found, width=self.size.width - MARGIN)
        self.query_one(TextPage).show(lines)
