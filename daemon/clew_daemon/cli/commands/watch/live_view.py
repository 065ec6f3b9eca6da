"""The live view of `clew watch` on a terminal: entries scroll by above the status of the goals, which is redrawn.

Nothing is cut at the edge of the window; where there is no room, whole lines are left out, the least important first.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from clew_daemon.cli.commands.watch.feed import QUESTION_CHARS
from clew_daemon.cli.commands.watch.goal_status import SHORTEST, brief_lines, goal_lines
from clew_daemon.reading.output import wrapped
from clew_daemon.reading.sanitize import clean, short
from clew_shared.exit_codes import ExitCode
from clew_shared.views.needs import need

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text

    from clew_daemon.cli.commands.watch.feed import FeedEntry
    from clew_daemon.cli.commands.watch.goal_status import GoalMoment
    from clew_daemon.reading.output import Line
    from clew_shared.record.state import State


OUTPUT_LINES = 3
OUTPUT_CHARS = 200
TOLD_BEFORE = "loop.detected"
"""The event that says what the line before it said in more words; for programs."""


class WatchView(Protocol):
    """Shows what happens, and the status of the goals."""

    def tell(self, entries: Sequence[FeedEntry]) -> None:
        """Show entries, once."""
        ...

    def draw(self, goals: Sequence[GoalMoment], note: str) -> None:
        """Show the status of the goals; `note` is a line on a daemon that does not run, "" otherwise."""
        ...


class PlainView:
    """One line for each entry, flushed; the end of an action leaves out its signature, which is in an earlier line."""

    def __init__(self) -> None:
        self._running: set[int] = set()

    def tell(self, entries: Sequence[FeedEntry]) -> None:
        for entry in entries:
            if entry.event == TOLD_BEFORE:
                continue
            is_known = entry.of in self._running
            self._running.discard(entry.of)
            if entry.begins:
                self._running.add(entry.of)
            text = entry_line(replace(entry, action="") if is_known else entry)
            for each in [text, *_question_lines(entry)]:
                print(f"{clean(entry.goal or 'clew')}: {each}", flush=True)

    def draw(self, goals: Sequence[GoalMoment], note: str) -> None:
        pass


class JsonView:
    """One JSON object for each entry, flushed."""

    def tell(self, entries: Sequence[FeedEntry]) -> None:
        for entry in entries:
            print(json.dumps(entry.as_json()), flush=True)

    def draw(self, goals: Sequence[GoalMoment], note: str) -> None:
        pass


def entry_line(entry: FeedEntry) -> str:
    """Return an entry in one line: its text, its action, and the first line of the output."""
    parts = [entry.text, *([entry.action] if entry.action else [])]
    text = (" " if entry.begins else ": ").join(parts)
    if entry.event == "goal.blocked":
        return text  # its question has lines of its own
    first = _output_lines(entry.output, 1, OUTPUT_CHARS)
    return f"{text}: {first[0]}" if first and not entry.begins else text


def _question_lines(entry: FeedEntry) -> list[str]:
    """Return the lines of a blocked goal's question; [] for other entries."""
    if entry.event != "goal.blocked":
        return []
    return [f"question: {each}" for each in _asked_lines(entry)]


def _asked_lines(entry: FeedEntry) -> list[str]:
    """Return the lines of a question, without the one that repeats the entry's own text."""
    lines = _output_lines(entry.output, QUESTION_CHARS, QUESTION_CHARS)
    return [one for one in lines if one not in f"Stopped: {entry.text.partition(': ')[2]}"]


def _output_lines(output: str, most: int, chars: int) -> list[str]:
    """Return the first lines of an output that are not blank, cleaned."""
    return list(islice((short(each, chars) for each in output.splitlines() if each.strip()), most))


def entry_lines(entry: FeedEntry, *, several: bool) -> list[Line]:
    """Return an entry as it scrolls by on a terminal, with the first lines of its output below."""
    if entry.begins or entry.event == TOLD_BEFORE:
        return []  # the live view shows what is running
    when = datetime.fromtimestamp(entry.at).astimezone().strftime("%H:%M:%S")
    goal = f"{clean(entry.goal)}  " if several and entry.goal else ""
    action = f"  {entry.action}" if entry.action else ""
    head: Line = [(f"{when} ", "dim"), (goal, "bold"), (entry.text, entry.style), (action, "")]
    if entry.event == "action.blocked":  # one line: `clew show` has the rest
        return [[*head, (f": {short(entry.output, OUTPUT_CHARS)}", "dim")]]
    asks = entry.event == "goal.blocked"  # its question must not be cut
    cut = _output_lines(entry.output, OUTPUT_LINES, OUTPUT_CHARS)
    output = _asked_lines(entry) if asks else cut
    return [head, *([(f"         {text}", "dim")] for text in output)]


REDRAW_S = 0.5
RECENT_LINES = 200
FULL_GOALS = 2
BRIEF_LINES = 5
"""Rows that a goal in short takes beside its question, in a window of 60 columns."""

WRAP_CHARS = 8
"""Columns of a row that wrapping between words and its indentation may leave empty."""

_RANK = {"in_progress": 1, "waiting": 2, "queued": 3}
_BLANK: Line = [("", "")]


def _rank(state: State) -> int:
    return 0 if need(state) else _RANK.get(str(state.goal.status), 4)


@contextmanager
def live_view(*, several: bool, foot: str) -> Iterator[LiveView]:
    """Yield a view that draws below the scrolling entries, and erase the drawing at the end."""
    view = LiveView(several=several, foot=foot)
    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_DFL:  # otherwise the cursor stays hidden
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.TERMINATED))
    try:
        with view.live:
            yield view
    finally:
        signal.signal(signal.SIGTERM, before)


class LiveView:
    """Entries that scroll by, and below them the status of the goals, in as many lines as there is room for."""

    def __init__(self, *, several: bool, foot: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False, markup=False, emoji=False)
        self.live = Live(console=self._console, auto_refresh=False, transient=True)
        self._several, self._foot = several, foot
        self._recent: deque[Line] = deque(maxlen=RECENT_LINES)
        self._size = self._console.size
        self._drawn_at = float("-inf")
        self._is_changed = True

    def tell(self, entries: Sequence[FeedEntry]) -> None:
        lines = [each for entry in entries for each in entry_lines(entry, several=self._several)]
        self._is_changed = self._is_changed or bool(entries)
        if lines:
            self._recent.extend(lines)
            self._print(lines)

    def draw(self, goals: Sequence[GoalMoment], note: str) -> None:
        if self._console.size != self._size:
            self._redraw()
        at = time.monotonic()
        if not self._is_changed and at - self._drawn_at < REDRAW_S:
            return
        from rich.console import Group

        self._is_changed, self._drawn_at = False, at
        lines = self._fitted(goals, note, time.time())
        self.live.update(Group(*self._parts(lines)), refresh=True)

    def _print(self, lines: Sequence[Line]) -> None:
        from rich.console import Group

        self._console.print(Group(*self._parts(lines)), overflow="fold")

    def _parts(self, lines: Sequence[Line]) -> list[Text]:
        return [part for each in lines for part in wrapped(each, max(1, self._size.width))]

    def _redraw(self) -> None:
        """Clear the window and draw everything again: a change of its size has moved the old lines."""
        self._size = self._console.size
        self.live.stop()
        self._console.clear()
        self.live.start()
        self._print(list(self._recent)[-self._size.height :])
        self._is_changed = True

    def _fitted(self, goals: Sequence[GoalMoment], note: str, at: float) -> list[Line]:
        """Return the lines that there is room for: goals that need a person first, then those at work."""
        ordered = sorted(goals, key=lambda one: _rank(one.state))
        foot: list[Line] = [[(note, "yellow")]] if note else []
        foot += [[(self._foot, "dim")]] if self._foot else []
        room = self._size.height - 1 - self._height(foot)
        full = [_BLANK, *(each for one in ordered for each in [*goal_lines(one, at), _BLANK])]
        if len(ordered) <= FULL_GOALS and self._height(full) <= room:
            return [*full, *foot]
        return [*self._in_short(ordered, room, at), *foot]

    def _in_short(self, ordered: Sequence[GoalMoment], room: int, at: float) -> list[Line]:
        """Return the goals in short, as many as there is room for, always with one that is at work."""
        working = (n for n, one in enumerate(ordered) if one.state.goal.status == "in_progress")
        shown = next(working, None)
        chars = self._size.width * max(1, room - BRIEF_LINES)
        briefs = [
            brief_lines(one, at, chars if shown is None else self._two_rows(one.state.goal_id))
            for one in ordered
        ]
        heights = [self._height(brief) for brief in briefs]
        lines: list[Line] = []
        for number, brief in enumerate(briefs):
            is_shown_later = shown is not None and shown > number
            needed = heights[shown] if shown is not None and is_shown_later else 0
            needed += len(briefs) - number - 1 - is_shown_later > 0
            if lines and heights[number] + needed > room:
                more = len(briefs) - number
                if shown is not None and shown >= number:
                    lines += briefs[shown]
                    more -= 1
                rest: list[Line] = [[(f"… and {more} more: clew status", "dim")]] if more else []
                return [*lines, *rest]
            lines += brief
            room -= heights[number]
        return lines

    def _two_rows(self, goal: str) -> int:
        """Return how many characters of a question fit into two rows, with the hint where all of it is."""
        hint = len(f"question: … (all of it: clew status {goal})")
        return max(SHORTEST, 2 * (self._size.width - WRAP_CHARS) - hint)

    def _height(self, lines: Sequence[Line]) -> int:
        """Return how many rows of the window the wrapped lines take."""
        options = self._console.options.update(width=max(1, self._size.width))
        return sum(len(self._console.render_lines(part, options)) for part in self._parts(lines))
