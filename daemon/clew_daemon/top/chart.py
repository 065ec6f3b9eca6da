"""A timeline in characters: a row for each worker, in which marks can be chosen by keys and with the mouse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.events import Click
from textual.message import Message
from textual.widget import Widget

from clew_daemon.reading.output import RESULT_STYLE, Line
from clew_daemon.reading.sanitize import clean, counted, short
from clew_daemon.record.timeline import (
    Lane,
    LaneColumns,
    Mark,
    RefusedAction,
    Timeline,
    Turn,
    column_of,
    lane_columns,
)
from clew_daemon.top.tables import lines_text
from clew_shared.record.moment import local, roughly
from clew_shared.text.words import ending

NAME_COLUMNS = 8
ENDING_COLUMNS = 20
COLUMNS_MIN = 10
TURNS_SHOWN = 5
REFUSALS_SHOWN = 5
WORDS_CHARS = 320
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


@dataclass(frozen=True, slots=True)
class _Place:
    """A chosen mark: its row among the lanes, and its column."""

    row: int
    column: int


class TimelineChart(Widget, can_focus=True):
    """Lanes with marks; the chosen one is shown reversed, and described below."""

    DEFAULT_CSS = "TimelineChart { height: auto; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("left", "beside(-1)", ""),
        ("right", "beside(1)", ""),
        ("up", "lane(-1)", ""),
        ("down", "lane(1)", ""),
        ("enter", "open", ""),
    ]

    class Opened(Message):
        """A mark was opened; `seq` is the number of its action."""

        def __init__(self, seq: int) -> None:
            super().__init__()
            self.seq = seq

    def __init__(self) -> None:
        super().__init__()
        self._timeline: Timeline | None = None
        self._refusals: tuple[RefusedAction, ...] = ()
        self._chosen: int | None = None

    def put(self, found: Timeline, refusals: tuple[RefusedAction, ...]) -> None:
        """Show a timeline and the last refusals; the chosen mark stays chosen."""
        if (found, refusals) != (self._timeline, self._refusals):
            self._timeline, self._refusals = found, refusals
            self.refresh(layout=True)

    def render(self) -> Text:
        if self._timeline is None or not self._timeline.lanes:
            return Text("It has not started." if self._timeline else "")
        return lines_text(self._lines(self._timeline))

    @property
    def _columns(self) -> int:
        return max(COLUMNS_MIN, self.size.width - NAME_COLUMNS - ENDING_COLUMNS)

    def _lanes(self) -> list[LaneColumns]:
        lanes = self._timeline.lanes if self._timeline else ()
        return [lane_columns(lane, self._columns) for lane in lanes]

    def _lines(self, found: Timeline) -> list[Line]:
        lanes = self._lanes()
        place = self._place(lanes)
        gaps = {column_of(gap.at, self._columns) for gap in found.gaps}
        drawn = [
            _lane_line(one, gaps, self._columns, place.column if place and place.row == row else -1)
            for row, one in enumerate(lanes)
        ]
        chosen = lanes[place.row].marks[place.column] if place else None
        return [
            _axis_line(found, self._columns),
            *([_turns_line(found.turns, self._columns)] if found.turns else []),
            *drawn,
            [("", "")],
            *_chosen_lines(chosen, lanes[place.row].lane if place else None),
            *self._words(chosen),
            [("", "")],
            *_legend_lines(found, lanes),
            *_refusal_lines(self._refusals),
        ]

    def _words(self, chosen: Mark | None) -> list[Line]:
        """Return why the chosen action was refused."""
        words = (one.why for one in self._refusals if chosen and one.seq == chosen.seq)
        return [[(short(text, WORDS_CHARS), "")] for text in words]

    def _place(self, lanes: list[LaneColumns]) -> _Place | None:
        """Return where the chosen mark is now, by default the last one; None where there is none."""
        places = [_Place(row, at) for row, one in enumerate(lanes) for at in one.marks]
        found = [one for one in places if lanes[one.row].marks[one.column].seq == self._chosen]
        return next(iter(found or places[-1:]), None)

    def _choose(self, lane: LaneColumns, column: int | None) -> None:
        if column is not None:
            self._chosen = lane.marks[column].seq
            self.refresh(layout=True)

    def action_beside(self, step: int) -> None:
        lanes = self._lanes()
        if place := self._place(lanes):
            lane = lanes[place.row]
            self._choose(lane, lane.beside(place.column, step))

    def action_lane(self, step: int) -> None:
        """Choose the nearest mark of the next lane that has one."""
        lanes = self._lanes()
        place = self._place(lanes)
        following = (
            ()
            if place is None
            else lanes[place.row + 1 :]
            if step > 0
            else lanes[: place.row][::-1]
        )
        lane = next((one for one in following if one.marks), None)
        if place and lane:
            self._choose(lane, lane.nearest(place.column))

    def action_open(self) -> None:
        lanes = self._lanes()
        if place := self._place(lanes):
            self.post_message(self.Opened(lanes[place.row].marks[place.column].seq))

    def on_click(self, event: Click) -> None:
        above = 2 if self._timeline and self._timeline.turns else 1
        lanes, row = self._lanes(), event.y - above
        if not 0 <= row < len(lanes):
            return
        before, lane = self._place(lanes), lanes[row]
        self._choose(lane, lane.nearest(event.x - NAME_COLUMNS))
        if before is not None and self._place(lanes) == before:
            self.action_open()


def _axis_line(found: Timeline, columns: int) -> Line:
    """Return the times of both ends."""
    began, ended = _clock(found.began), _clock(found.began + found.seconds)
    return [
        ("worker".ljust(NAME_COLUMNS), "bold"),
        (began + ended.rjust(columns - len(began)), "dim"),
    ]


def _clock(at: float) -> str:
    return local(at).rpartition(" ")[2]


def _turns_line(turns: Iterable[Turn], columns: int) -> Line:
    cells = [" "] * columns
    for turn in turns:
        cells[column_of(turn.at, columns)] = TURNS.get(turn.kind, "?")
    return [("goal".ljust(NAME_COLUMNS), "dim"), ("".join(cells).rstrip(), "bold")]


def _lane_line(one: LaneColumns, gaps: set[int], columns: int, chosen: int) -> Line:
    lane = one.lane
    name = f"{lane.epoch}.{lane.attempt}".ljust(NAME_COLUMNS)
    cells = [
        _cell(one, at, columns, is_gap=at in gaps, is_chosen=at == chosen) for at in range(columns)
    ]
    style = "red" if lane.crashed else "dim"
    how = short(ending(lane.ending) or AT_WORK, ENDING_COLUMNS - 1)
    return [(name, ""), *cells, (f" {how}", style)]


def _cell(
    one: LaneColumns, at: int, columns: int, *, is_gap: bool, is_chosen: bool
) -> tuple[str, str]:
    if one.lane.crashed and at == min(one.last + 1, columns - 1):
        return DIED, "bold red"
    if mark := one.marks.get(at):
        style = RESULT_STYLE.get(mark.result, "cyan")
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
    action = short(mark.label, 160)
    ended = f"ended: {clean(ending(lane.ending))}" if lane.ending else AT_WORK
    about = f"worker {lane.epoch}, attempt {lane.attempt}"
    about += f", agent {clean(lane.agent)}" if lane.agent else ""
    return [
        [
            (f"#{mark.seq} ", "bold"),
            (what, RESULT_STYLE.get(mark.result, "cyan")),
            (f"{worst}  {action}", ""),
        ],
        [(f"{about}; {ended}", "dim")],
    ]


def _legend_lines(found: Timeline, lanes: Iterable[LaneColumns]) -> list[Line]:
    """Return what the characters mean, as far as they occur, and the moments that concern the whole goal."""
    results = {mark.result for one in lanes for mark in one.marks.values()}
    known = {char: text for result, (char, text) in MARKS.items() if result in results}
    known |= {DIED: "worker died"} if any(lane.crashed for lane in found.lanes) else {}
    gaps = ", ".join(roughly(gap.seconds) for gap in found.gaps)
    known |= {IDLE: f"idle, squeezed: {gaps}"} if gaps else {}
    legend = "   ".join(f"{char} {text}" for char, text in known.items())
    earlier = f"{counted(found.earlier, 'earlier worker')} left out" if found.earlier else ""
    turns = found.turns[-TURNS_SHOWN:]
    return [
        *([[(text, "dim")] for text in (legend, earlier) if text]),
        *(_turn_line(one) for one in turns),
    ]


def _turn_line(one: Turn) -> Line:
    text = f": {clean(one.text)}" if one.text else ""
    return [(TURNS.get(one.kind, "?"), "bold"), (f" {one.kind}{text}", "")]


def _refusal_lines(refusals: tuple[RefusedAction, ...]) -> list[Line]:
    """Return the last refusals with their reasons, the latest first."""
    shown = refusals[: -REFUSALS_SHOWN - 1 : -1]
    head: list[Line] = [[("", "")], [("last refused:", "bold")]] if shown else []
    return [*head, *(_refusal_line(one) for one in shown)]


def _refusal_line(one: RefusedAction) -> Line:
    return [
        (f"#{one.seq} ", ""),
        (short(one.why, 160), "magenta"),
        (f"  {short(one.label, 160)}", ""),
    ]
