"""The timeline of a goal in characters: a lane for each worker, with its actions, refusals and end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clew_daemon.reading.goal_list import GoalView
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import RESULT_STYLE, Line, Span
from clew_daemon.reading.sanitize import clean, counted, short
from clew_daemon.reading.timelines import Timelines
from clew_daemon.record import timeline
from clew_daemon.record.timeline import LaneColumns, RefusedAction, Timeline, column_of
from clew_daemon.top.screens import GoalViewScreen
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
TURNS = {"blocked": "B", "feedback": "F", "waiting": "W"}
TURNS |= dict.fromkeys(("completed", "failed", "cancelled"), "C")
"""The letter of each moment that concerns the whole goal; those with a C ended it."""

TimelineView = tuple[Timeline, tuple[RefusedAction, ...]]


def timeline_lines(
    found: Timeline, refusals: Sequence[RefusedAction], width: int
) -> Iterator[Line]:
    """Yield a lane for each worker, the moments of the whole goal, what the characters mean, and the last refusals."""
    if not found.lanes:
        yield [("It has not started.", "")]
        return
    columns = max(COLUMNS_MIN, width - NAME_COLUMNS - ENDING_COLUMNS)
    began, ended = _clock(found.began), _clock(found.began + found.seconds)
    axis = began + ended.rjust(columns - len(began))
    yield [("worker".ljust(NAME_COLUMNS), "bold"), (axis, "dim")]
    if found.turns:
        cells = {column_of(turn.at, columns): TURNS.get(turn.kind, "?") for turn in found.turns}
        line = "".join(cells.get(at, " ") for at in range(columns)).rstrip()
        yield [("goal".ljust(NAME_COLUMNS), "dim"), (line, "bold")]
    gaps = {column_of(gap.at, columns) for gap in found.gaps}
    for lane in found.lanes:
        yield _lane_line(timeline.lane_columns(lane, columns), gaps, columns)
    yield [("", "")]
    yield from _legend_lines(found)
    if refusals:
        yield from ([("", "")], [("last refused:", "bold")])
    for one in refusals[: -REFUSALS_SHOWN - 1 : -1]:
        why, label = short(one.why, 160), short(one.label, 160)
        yield [(f"#{one.seq} ", ""), (why, "magenta"), (f"  {label}", "")]


def _clock(at: float) -> str:
    return local(at).rpartition(" ")[2]


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


def _legend_lines(found: Timeline) -> Iterator[Line]:
    """Yield what the characters mean, as far as they occur, and the moments that concern the whole goal."""
    results = {mark.result for lane in found.lanes for mark in lane.marks}
    known = {char: text for result, (char, text) in MARKS.items() if result in results}
    known |= {DIED: "worker died"} if any(lane.crashed for lane in found.lanes) else {}
    gaps = ", ".join(roughly(gap.seconds) for gap in found.gaps)
    known |= {IDLE: f"idle, squeezed: {gaps}"} if gaps else {}
    if known:
        yield [("   ".join(f"{char} {text}" for char, text in known.items()), "dim")]
    if found.earlier:
        yield [(f"{counted(found.earlier, 'earlier worker')} left out", "dim")]
    for turn in found.turns[-TURNS_SHOWN:]:
        text = f" {turn.kind}{f': {clean(turn.text)}' if turn.text else ''}"
        yield [(TURNS.get(turn.kind, "?"), "bold"), (text, "")]


class TimelineScreen(GoalViewScreen[TimelineView]):
    """The timeline; the actions are in the first view of the goal."""

    view, shows = "timeline", "clew history"

    def __init__(self, instance: Instance, goal: str) -> None:
        super().__init__(instance, goal)
        self._known = Timelines(instance)

    def read_view(self, detail: GoalView) -> TimelineView:
        return self._known.of(self.goal_id, detail["ended_at"])

    def display_view(self, found: TimelineView) -> None:
        self.page(timeline_lines(*found, width=self.size.width - MARGIN))
