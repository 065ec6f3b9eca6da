"""The views of `clew watch`: lines in a pipe, JSON lines, and what a live view on a terminal shares with them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from clew_daemon.cli.commands.watch.feed import QUESTION_CHARS
from clew_daemon.cli.display.sanitize import clean, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew_daemon.cli.commands.watch.feed import FeedEntry
    from clew_daemon.cli.commands.watch.goal_status import GoalMoment
    from clew_daemon.cli.display.output import Line

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
    lines = _output_lines(entry.output, QUESTION_CHARS, QUESTION_CHARS)
    return [f"question: {each}" for each in lines]


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
    most, chars = (QUESTION_CHARS, QUESTION_CHARS) if asks else (OUTPUT_LINES, OUTPUT_CHARS)
    output = _output_lines(entry.output, most, chars)
    return [head, *([(f"         {text}", "dim")] for text in output)]
