"""The further views of a goal: its timeline, the prompts of its agent turn by turn, and the files that it changed."""

import shlex
from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import Static

from clew_daemon.reading.actions import timeline_of
from clew_daemon.reading.diff import STYLES, shown_diff
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.output import RESULT_STYLE, Line
from clew_daemon.reading.prompt_text import InspectedPrompt, inspected, turn_lines
from clew_daemon.reading.sanitize import clean, short
from clew_daemon.record.goal_view import GoalDetail
from clew_daemon.record.timeline import Lane, RefusedAction, Timeline
from clew_daemon.top.screens import GoalViewScreen
from clew_shared.text.words import counted, ending, outcome

NAME_COLUMNS, ENDING_COLUMNS, COLUMNS_MIN = 16, 20, 10
TURNS_SHOWN, REFUSALS_SHOWN = 5, 5
TEXT_CHARS = 160
AT_WORK = "at work"
# The character of each result: nothing depends on colours.
MARKS = {
    "success": "■",
    "running": ">",
    "failure": "x",
    "error": "x",
    "timeout": "t",
    "interrupted": "~",
    "blocked": "▲",
}
MARGIN = 2


def timeline_lines(
    found: Timeline, refusals: Sequence[RefusedAction], width: int
) -> Iterator[Line]:
    """Yield a lane for each worker, what the characters mean, the last moments of the whole goal and refusals."""
    if not found.lanes:
        yield [("It has not started.", "")]
        return
    room = max(COLUMNS_MIN, width - NAME_COLUMNS - ENDING_COLUMNS)
    yield [("epoch".ljust(NAME_COLUMNS), "bold"), ("its last actions, in their order", "dim")]
    yield from (_lane_line(lane, room) for lane in found.lanes)
    results = {mark.result for lane in found.lanes for mark in lane.marks}
    known = {char: outcome(result) for result, char in MARKS.items() if result in results}
    yield [("", "")]
    yield [("   ".join(f"{char} {text}" for char, text in known.items()), "dim")]
    if found.earlier:
        yield [(f"{counted(found.earlier, 'earlier worker')} left out", "dim")]
    for turn in found.turns[-TURNS_SHOWN:]:
        yield [(turn.kind, "bold"), (f": {short(turn.text, TEXT_CHARS)}" if turn.text else "", "")]
    if refusals:
        yield from ([("", "")], [("last refused:", "bold")])
    for one in refusals[: -REFUSALS_SHOWN - 1 : -1]:
        why, label = short(one.why, TEXT_CHARS), short(one.label, TEXT_CHARS)
        yield [(f"#{one.seq} ", ""), (why, "magenta"), (f"  {label}", "")]


def _lane_line(lane: Lane, room: int) -> Line:
    marks = [mark.result for mark in lane.marks[-room:]]
    cells = [(MARKS.get(one, "?"), RESULT_STYLE.get(one, "cyan")) for one in marks]
    attempt = f", attempt {lane.attempt}" if lane.attempt > 1 else ""
    name = f"{lane.epoch}{attempt}".ljust(NAME_COLUMNS)
    how = short(ending(lane.ending) or AT_WORK, ENDING_COLUMNS - 1)
    end = (f"{' ' * (room - len(marks))} {how}", "red" if lane.crashed else "dim")
    return [(name, ""), *cells, end]


class TimelineScreen(GoalViewScreen):
    """The timeline; the actions are in the first view of the goal."""

    view, shows = "timeline", "clew history"

    def lines(self, detail: GoalDetail) -> list[Line]:
        found = timeline_of(self.instance, self.goal_id, detail["ended_at"])
        return list(timeline_lines(*found, width=self.size.width - MARGIN))


class PromptScreen(GoalViewScreen):
    """The prompt of a turn with what changed since the turn before, first of the next call; or why there is none."""

    view, shows = "prompt", "clew context"
    keys = (("b", "Previous", "screen.before"), ("n", "Next", "screen.after"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, action, label, show=False) for key, label, action in keys
    ]
    _turn: int | None = None
    _shown: InspectedPrompt | None = None

    def basis(self, detail: GoalDetail) -> object:
        newest = None if self._turn else detail["updated_at"]
        return self._turn, detail["iteration"], newest

    def lines(self, detail: GoalDetail) -> list[Line]:  # noqa: ARG002 - it is read by its id
        try:
            self._shown = inspected(self.instance, self.goal_id, self._turn)
        except CliError as error:
            self._shown = None
            return [[(clean(error.message), "")]]
        return turn_lines(self._shown, whole=False)

    def action_before(self) -> None:
        self._step(-1)

    def action_after(self) -> None:
        self._step(1)

    def _step(self, step: int) -> None:
        """Show the prompt of the turn before or after; after the last one, always that of the next call."""
        if self._shown:
            wanted = max(1, self._shown.turn + step)
            self._turn = wanted if wanted < self._shown.turns else None
            turn = f" --turn {self._turn}" if self._turn else ""
            self.command = f"clew context {shlex.quote(self.goal_id)}{turn}"
            self.query_one(".command", Static).update(Text(f"$ {clean(self.command)}"))
            self.renew(at_once=True)


class FilesScreen(GoalViewScreen):
    """The changed files with counts, then the difference of each; or why there is none."""

    view, shows = "files", "clew diff"

    def basis(self, detail: GoalDetail) -> object:
        return detail["snapshots"], detail["status"]

    def lines(self, detail: GoalDetail) -> list[Line]:  # noqa: ARG002 - as above
        lines: list[Line] = []
        for kind, text in shown_diff(self.instance, self.goal_id):
            if kind == "file" and text.startswith("diff --git "):
                lines.append([("", "")])
            lines.append([(clean(text.expandtabs(4)), STYLES[kind])])
        return lines
