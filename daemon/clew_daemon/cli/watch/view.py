"""How goals that are watched are shown: lines in a pipe, JSON lines, or a live view on a terminal.

On a terminal what happened scrolls by above a few lines that are drawn again and again: where each goal stands, and
what it does now. Nothing is cut at the window's edge; where there is no room, whole lines are left out, the least
important first.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from clew_daemon.cli.output import STATUS_STYLE, duration, on_terminal, percent, wrapped
from clew_daemon.cli.printable import clean, short
from clew_daemon.cli.tree import BAR_CHARS, is_in, thousands
from clew_daemon.cli.watch.happenings import counted, place, signature
from clew_daemon.publish.standing import standing
from clew_shared.exit_codes import ExitCode
from clew_shared.record.moment import local
from clew_shared.views.publish import status_view

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.text import Text

    from clew_daemon.cli.output import Line
    from clew_daemon.cli.watch.happenings import Entry
    from clew_shared.record.state import State

OUTPUT_LINES = 3
OUTPUT_CHARS = 200
QUESTION_CHARS = 2_000
TOLD_WHOLE = ("goal.blocked", "action.blocked")
"""Events whose output is a question or advice, which is of no use when it is cut."""

REDRAW_S = 0.5
KEPT = 200
FULL_GOALS = 2
BRIEF_LINES = 5
"""Rows that a goal in short takes beside its question, in a window of 60 columns."""

WRAP_CHARS = 8
"""Columns of a row that wrapping between words and its indentation may leave empty."""

SHORTEST = 40
"""Characters of a reason or a question that are shown, however small the window is."""


_RANK = {"blocked": 0, "in_progress": 1, "waiting": 2, "queued": 3}


@dataclass(frozen=True, slots=True)
class Seen:
    """A goal at one moment: its state, and its entry of `status` from the running daemon, as of `asked_at`.

    `away` says that no daemon runs: then nothing happens, whatever the record says last.
    """

    state: State
    told: Mapping[str, Any] | None = None
    asked_at: float = 0.0
    away: bool = False


class View(Protocol):
    """Shows what happens, and where goals stand."""

    def tell(self, entries: Sequence[Entry]) -> None:
        """Show what happened, once."""
        ...

    def draw(self, seen: Sequence[Seen], note: str) -> None:
        """Show where goals stand now; `note` says what is wrong with the daemon, "" for nothing."""
        ...


@contextmanager
def shown(*, as_json: bool = False, several: bool = False, foot: str = "") -> Iterator[View]:
    """Give the view that fits the place that is printed to; `several` goals are told apart in it.

    `foot` stands below a live view.
    """
    if as_json:
        yield Json()
    elif on_terminal():
        with _live(several=several, foot=foot) as view:
            yield view
    else:
        yield Plain()


class Plain:
    """One line for each entry, flushed; how an action ended is said without what it was, which stands above."""

    def __init__(self) -> None:
        self._running: set[int] = set()

    def tell(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            known = entry.of in self._running
            self._running.discard(entry.of)
            if entry.begins:
                self._running.add(entry.of)
            text = line(replace(entry, action="") if known else entry)
            for each in [text, *question_lines(entry)]:
                print(f"{clean(entry.goal or 'clew')}: {each}", flush=True)

    def draw(self, seen: Sequence[Seen], note: str) -> None:
        pass


class Json:
    """One JSON object for each entry, flushed."""

    def tell(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            print(json.dumps(entry.as_json()), flush=True)

    def draw(self, seen: Sequence[Seen], note: str) -> None:
        pass


def line(entry: Entry) -> str:
    """Return an entry in one line: what it is about, what came of it, and the first line of the output."""
    parts = [entry.text, *([entry.action] if entry.action else [])]
    text = (" " if entry.begins else ": ").join(parts)
    if entry.event == "goal.blocked":
        return text  # its question has lines of its own
    first = output_lines(entry.output, 1, chars_of(entry))
    return f"{text}: {first[0]}" if first and not entry.begins else text


def question_lines(entry: Entry) -> list[str]:
    """Return the question of a goal that is blocked, one line for each of its lines; [] for other entries."""
    if entry.event != "goal.blocked":
        return []
    lines = output_lines(entry.output, QUESTION_CHARS, QUESTION_CHARS)
    return [f"question: {each}" for each in lines]


def chars_of(entry: Entry) -> int:
    """Return how much of a line of an entry's output is shown."""
    return QUESTION_CHARS if entry.event in TOLD_WHOLE else OUTPUT_CHARS


def output_lines(output: str, most: int = OUTPUT_LINES, chars: int = OUTPUT_CHARS) -> list[str]:
    """Return the first lines of an output that are not blank, made harmless."""
    found = (short(each, chars) for each in output.splitlines() if each.strip())
    return list(islice(found, most))


def entry_lines(entry: Entry, *, several: bool) -> list[Line]:
    """Return an entry as it scrolls by on a terminal, with the first lines of its output below."""
    if entry.begins:
        return []  # the live view says what is running
    when = datetime.fromtimestamp(entry.at).astimezone().strftime("%H:%M:%S")
    who = f"{clean(entry.goal)}  " if several and entry.goal else ""
    about = f"  {entry.action}" if entry.action else ""
    lines: list[Line] = [
        [(f"{when} ", "dim"), (who, "bold"), (entry.text, entry.style), (about, "")]
    ]
    most = QUESTION_CHARS if entry.event in TOLD_WHOLE else OUTPUT_LINES
    shown = output_lines(entry.output, most, chars_of(entry))
    return lines + [[(f"         {text}", "dim")] for text in shown]


# -- where a goal stands ---------------------------------------------------------------------------------


def goal_lines(seen: Seen, at: float) -> list[Line]:
    """Return where a goal stands, in full: who it is, how far, what it does now, and a question."""
    state = seen.state
    head: Line = [(clean(state.goal_id), "bold"), (f"  {short(state.goal.description)}", "")]
    subtask = state.subtask
    at_work = state.goal.status in ("in_progress", "waiting") and subtask
    here: list[Line] = []
    if at_work and subtask:
        here = [[(f"{place(state)} {short(subtask.description)}", "")]]
    return [head, standing_line(seen, at), *here, *doing_lines(seen, at)]


def brief_lines(seen: Seen, at: float, question_chars: int = QUESTION_CHARS) -> list[Line]:
    """Return where a goal stands, in short: its id, how far it is, and what it does now."""
    name: Line = [(f"{clean(seen.state.goal_id)}  ", "bold"), *standing_line(seen, at, bar=False)]
    return [name, *doing_lines(seen, at, question_chars)]


def standing_line(seen: Seen, at: float, *, bar: bool = True) -> Line:
    """Return status, progress, elapsed time, tokens and restarts."""
    state = seen.state
    entry = status_view(state)
    full = round(entry["progress"] * BAR_CHARS)
    drawn = f"[{'#' * full}{'.' * (BAR_CHARS - full)}] " if bar else ""
    facts = [elapsed(seen, at)] if state.started_at else []
    facts += [f"{thousands(state.cost.tokens)} tokens"] if state.cost.tokens else []
    facts += [counted(state.actions_total, "action")] if state.actions_total else []
    facts += [counted(state.restarts, "restart")] if state.restarts else []
    facts += [f"{state.blocked_total} refused"] if state.blocked_total else []
    return [
        (f"{drawn}{percent(entry['progress'])}  ", "cyan"),
        (standing(entry), STATUS_STYLE.get(entry["status"], "")),
        (f"  {', '.join(facts)}", "dim"),
    ]


def elapsed(seen: Seen, at: float) -> str:
    """Return how long the goal has been worked on, from its start until now or until it came to rest."""
    state = seen.state
    resting = state.ended or state.goal.status == "blocked" or seen.away
    until = ((state.ended and state.ended_at) or state.updated_at) if resting else at
    return span(until - state.started_at)


def span(seconds: float) -> str:
    """Return a time in whole seconds, or in its two largest units: `12 s`, `4 min 10 s`."""
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 60 else duration(whole)


def doing_lines(seen: Seen, at: float, question_chars: int = QUESTION_CHARS) -> list[Line]:
    """Return what happens with a goal now, what it waits for, or the question that it asks."""
    text, style = _doing(seen, at)
    question = seen.state.question.strip() if seen.state.goal.status == "blocked" else ""
    is_said = bool(question) and is_in(seen.state.reason, question)
    lines: list[Line] = [
        [(short(text, max(question_chars, SHORTEST)) if question else text, style)]
    ]
    lines = [] if is_said or not text else lines
    if question:
        asked = clean(question, lines=True)
        if len(asked) > question_chars:
            asked = f"{asked[:question_chars]}… (all of it: clew status {seen.state.goal_id})"
        lines.append([("question: ", "bold magenta"), (asked, "")])
    return lines


def _doing(seen: Seen, at: float) -> tuple[str, str]:
    state = seen.state
    match str(state.goal.status):
        case "in_progress" if seen.away:
            return "stopped; continues when the daemon runs", "yellow"
        case "in_progress":
            return _working(seen, at), "cyan"
        case "waiting" | "queued":
            return _waiting(seen, at), "yellow"
        case "blocked" | "failed":
            return short(state.reason, 300), "magenta" if state.goal.status == "blocked" else "red"
        case _:
            return "", ""


def _working(seen: Seen, at: float) -> str:
    state = seen.state
    if state.in_flight:
        flight = next(reversed(state.in_flight.values()))
        since = _seconds(flight.action.timestamp, at)
        return f"tool running for {span(at - since)}: #{flight.seq} {signature(flight.signature)}"
    if not state.working:
        return f"starting a worker (epoch {state.epoch + 1})"
    now = (seen.told or {}).get("now") or {}
    if seen.asked_at < state.updated_at or now.get("doing") in (
        None,
        "tool",
    ):  # older than the record
        now = {"doing": "thinking"}
    for_s = span(at - _seconds(now.get("since"), state.updated_at))
    what = short(str(now.get("what") or ""))
    match now["doing"]:
        case "checks":
            return f"checks running for {for_s}: {what}"
        case "starting":
            return f"starting for {for_s}: {what}"
        case _:
            return f"thinking for {for_s}{f' ({what})' if what else ''}"


def _waiting(seen: Seen, at: float) -> str:
    state = seen.state
    told = (seen.told or {}).get("waiting") if seen.asked_at >= state.updated_at else None
    waiting = told or status_view(state)["waiting"] or {}
    if state.paused:
        return f"paused; to resume: clew resume {state.goal_id}"
    what = short(str(waiting.get("for") or "a worker"), 300).removeprefix("waits for ")
    if seen.away and what == "a worker":
        what = "the daemon"
    until = waiting.get("until")
    left = _seconds(until, at) - at if until else 0.0
    if seen.away:
        return f"waiting for {what}" + (f" until {local(until)}" if until and left > 0 else "")
    when = f" until {local(until)} (in {span(left)})" if until and left > 0 else ""
    since = span(at - _seconds(waiting.get("since"), at))
    return f"waiting for {what}{when}; for {since} now"


def _seconds(moment: Any, otherwise: float) -> float:
    """Return seconds since 1970 of a moment in ISO 8601."""
    try:
        return datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return otherwise


# -- the terminal ----------------------------------------------------------------------------------------


@contextmanager
def _live(*, several: bool, foot: str) -> Iterator[View]:
    """Draw below what scrolls by, and leave nothing of that standing at the end."""
    view = _Terminal(several=several, foot=foot)
    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_DFL:  # else the cursor would stay hidden
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.TERMINATED))
    try:
        with view.live:
            yield view
    finally:
        signal.signal(signal.SIGTERM, before)


class _Terminal:
    """What happened, above; below it where goals stand, in as many lines as there is room for."""

    def __init__(self, *, several: bool, foot: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False, markup=False, emoji=False)
        self.live = Live(console=self._console, auto_refresh=False, transient=True)
        self._several, self._foot = several, foot
        self._recent: deque[Line] = deque(maxlen=KEPT)
        self._size = self._console.size
        self._drawn_at = float("-inf")
        self._news = True

    def tell(self, entries: Sequence[Entry]) -> None:
        lines = [each for entry in entries for each in entry_lines(entry, several=self._several)]
        self._news = self._news or bool(entries)
        if lines:
            self._recent.extend(lines)
            self._print(lines)

    def draw(self, seen: Sequence[Seen], note: str) -> None:
        if self._console.size != self._size:
            self._begin_again()
        at = time.monotonic()
        if not self._news and at - self._drawn_at < REDRAW_S:
            return
        from rich.console import Group

        self._news, self._drawn_at = False, at
        lines = self._fitted(seen, note, time.time())
        self.live.update(Group(*self._parts(lines)), refresh=True)

    def _print(self, lines: Sequence[Line]) -> None:
        from rich.console import Group

        self._console.print(Group(*self._parts(lines)), overflow="fold")

    def _parts(self, lines: Sequence[Line]) -> list[Text]:
        return [part for each in lines for part in wrapped(each, max(1, self._size.width))]

    def _begin_again(self) -> None:
        """Draw all of it for a window of another size: nobody knows where the terminal has put the old lines."""
        self._size = self._console.size
        self.live.stop()
        self._console.clear()
        self.live.start()
        self._print(list(self._recent)[-self._size.height :])
        self._news = True

    def _fitted(self, seen: Sequence[Seen], note: str, at: float) -> list[Line]:
        """Return as much as there is room for: what needs a person first, then what is at work."""
        ordered = sorted(seen, key=lambda one: _RANK.get(str(one.state.goal.status), 4))
        foot: list[Line] = [[(note, "yellow")]] if note else []
        foot += [[(self._foot, "dim")]] if self._foot else []
        room = self._size.height - 1 - self._height(foot)
        full = [_BLANK, *(each for one in ordered for each in [*goal_lines(one, at), _BLANK])]
        if len(ordered) <= FULL_GOALS and self._height(full) <= room:
            return [*full, *foot]
        return [*self._in_short(ordered, room, at), *foot]

    def _in_short(self, ordered: Sequence[Seen], room: int, at: float) -> list[Line]:
        """Return the goals in short, as many as there is room for; one that is at work always has its place."""
        working = (n for n, one in enumerate(ordered) if one.state.goal.status == "in_progress")
        kept = next(working, None)
        chars = self._size.width * max(1, room - BRIEF_LINES)
        briefs = [
            brief_lines(one, at, chars if kept is None else self._two_rows(one.state.goal_id))
            for one in ordered
        ]
        heights = [self._height(brief) for brief in briefs]
        lines: list[Line] = []
        for number, brief in enumerate(briefs):
            is_kept_later = kept is not None and kept > number
            needed = heights[kept] if kept is not None and is_kept_later else 0
            needed += len(briefs) - number - 1 - is_kept_later > 0
            if lines and heights[number] + needed > room:
                more = len(briefs) - number
                if kept is not None and kept >= number:
                    lines += briefs[kept]
                    more -= 1
                said = f"… and {more} more: clew status"
                return [*lines, *([[(said, "dim")]] if more else [])]
            lines += brief
            room -= heights[number]
        return lines

    def _two_rows(self, goal: str) -> int:
        """Return how much of a question fits into two rows, with the words that say where all of it is."""
        told = len(f"question: … (all of it: clew status {goal})")
        return max(SHORTEST, 2 * (self._size.width - WRAP_CHARS) - told)

    def _height(self, lines: Sequence[Line]) -> int:
        """Return how many rows of the window lines take when they are wrapped."""
        options = self._console.options.update(width=max(1, self._size.width))
        return sum(len(self._console.render_lines(part, options)) for part in self._parts(lines))


_BLANK: Line = [("", "")]
