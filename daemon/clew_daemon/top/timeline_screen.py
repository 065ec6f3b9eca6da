"""The timeline of a goal in characters: a lane for each worker, with its actions, refusals and end."""

from collections.abc import Iterator, Sequence

from clew_daemon.reading.goal_list import GoalView
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import RESULT_STYLE, Line, Span
from clew_daemon.reading.sanitize import clean, counted, short
from clew_daemon.reading.timelines import Timelines
from clew_daemon.record.timeline import Lane, RefusedAction, Timeline, badness
from clew_daemon.top.screens import GoalViewScreen
from clew_shared.record.moment import local
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
LIFE, DIED = "─", "X"
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
    for lane in found.lanes:
        yield _lane_line(lane, columns)
    yield [("", "")]
    yield from _legend_lines(found)
    if refusals:
        yield from ([("", "")], [("last refused:", "bold")])
    for one in refusals[: -REFUSALS_SHOWN - 1 : -1]:
        why, label = short(one.why, 160), short(one.label, 160)
        yield [(f"#{one.seq} ", ""), (why, "magenta"), (f"  {label}", "")]


def column_of(place: float, width: int) -> int:
    """Return the column of a place between 0 and 1."""
    return min(width - 1, max(0, int(place * width)))


def _clock(at: float) -> str:
    return local(at).rpartition(" ")[2]


def _lane_line(lane: Lane, columns: int) -> Line:
    """Return a lane in characters; of marks that share one, the worst is there."""
    first, last = column_of(lane.start, columns), column_of(lane.start + lane.width, columns)
    cells: list[Span] = [(LIFE if first <= at <= last else " ", "dim") for at in range(columns)]
    for mark in sorted(lane.marks, key=lambda mark: badness(mark.result)):
        shown = MARKS.get(mark.result, ("?", ""))[0], RESULT_STYLE.get(mark.result, "cyan")
        begins, ends = column_of(mark.start, columns), column_of(mark.start + mark.width, columns)
        cells[begins : ends + 1] = [shown] * (ends + 1 - begins)
    if lane.crashed:
        cells[min(last + 1, columns - 1)] = DIED, "bold red"
    name = f"{lane.epoch}.{lane.attempt}".ljust(NAME_COLUMNS)
    how = short(ending(lane.ending) or AT_WORK, ENDING_COLUMNS - 1)
    return [(name, ""), *cells, (f" {how}", "red" if lane.crashed else "dim")]


def _legend_lines(found: Timeline) -> Iterator[Line]:
    """Yield what the characters mean, as far as they occur, and the moments that concern the whole goal."""
    results = {mark.result for lane in found.lanes for mark in lane.marks}
    known = {char: text for result, (char, text) in MARKS.items() if result in results}
    known |= {DIED: "worker died"} if any(lane.crashed for lane in found.lanes) else {}
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
