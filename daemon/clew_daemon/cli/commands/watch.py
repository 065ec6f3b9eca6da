"""`clew watch`, and the watching that `submit --wait` and `demo` do as well."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.watched import Watched
from clew_daemon.reading.errors import print_note
from clew_daemon.reading.goal_list import in_view, needs_lines, now_text, status_cells
from clew_daemon.reading.goal_text import answer_lines, closing_lines, goal_lines
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import INDENT, Line, columns, on_terminal, print_lines, wrapped
from clew_daemon.reading.sanitize import clean, short
from clew_daemon.record.goal_status import goal_detail
from clew_daemon.record.goal_view import GoalDetail, GoalView
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from rich.console import Group

    from clew_daemon.reading.describe import Entry
    from clew_shared.record.state import State

POLL_S, DEMO_POLL_S = 0.1, 0.03
REPORT_S = 2.0
OUTPUT_LINES = 3
OUTPUT_CHARS = 200
QUESTION_CHARS = 2_000
REDRAW_S = 0.5
WAITS_S = 2.0
FOOT = "Ctrl-C stops watching; the goals continue."


@parameters.command(parameters.some_goals, name="watch")
def command(instance: Instance, goals: tuple[str, ...]) -> None:
    """Show what goals do as it happens, until they end or need you; without GOAL all goals, until Ctrl-C.

    Ctrl-C stops watching; the goals continue, and can be watched again at any time. Exit code 0: all were completed;
    1: one was not; 3: the daemon ended and did not start again; 130: Ctrl-C while a given goal was still running.
    """
    is_completed = watch(instance, goals, attach=True)
    raise click.exceptions.Exit(0 if is_completed else ExitCode.FAILED)


Each = Callable[[Sequence[GoalDetail]], None]


def watch(
    instance: Instance, goals: Sequence[str], each: Each | None = None, *, attach: bool = False
) -> bool:
    """Show the goals until none goes on without a person; return whether all were completed.

    No `goals` means all goals, until Ctrl-C. Earlier events are shown from the beginning, or with `attach` only the
    last actions. `each` is called with the details of the goals after every look: in the demo, whose daemon ends with
    a Ctrl-C here. Raises CliError if the daemon ends and does not start again.
    """
    watched, stays = Watched(instance, goals, attach=attach), each is None
    try:
        foot = FOOT if stays else ""
        with closing(watched), watch_view(several=len(goals) != 1, foot=foot) as view:
            report_until = 0.0
            while True:
                view.tell(watched.read())
                if each is not None and watched.named:
                    each([goal_detail(one, time.time()) for one in watched.named])
                view.draw(watched.views(), watched.note)
                if watched.is_at_rest:
                    now = time.monotonic()
                    report_until = report_until or now + (REPORT_S if stays else 0.0)
                    if now >= report_until or watched.are_reported:
                        break
                time.sleep(POLL_S if stays else DEMO_POLL_S)
    except KeyboardInterrupt:
        if not stays:
            raise
        unfinished = [state for state in watched.states.values() if not state.ended]
        _print_goodbye(instance, unfinished)
        code = ExitCode.INTERRUPTED if goals and unfinished else 0
        raise click.exceptions.Exit(code) from None
    _print_end(instance, watched.named, reports=stays)
    return all(state.goal.status == "completed" for state in watched.named)


def _print_end(instance: Instance, states: Sequence[State], *, reports: bool) -> None:
    """Print how the goals ended."""
    for detail in [goal_detail(state, time.time()) for state in states]:
        report = instance.report_of(detail["id"]) if reports else ""
        if on_terminal():
            print_lines(goal_lines(detail, report=report))
            continue
        is_asking = detail["status"] == "blocked"  # and its question was told
        lines: list[Line] = [
            *(answer_lines(detail) if is_asking else closing_lines(detail, detail["summary"]))
        ]
        lines += [[("report: ", ""), (report, "")]] if report else []
        print_lines([(f"{clean(detail['id'])}: ", ""), *one] for one in lines)


def _print_goodbye(instance: Instance, unfinished: Sequence[State]) -> None:
    """Print which goals continue, and how to watch them again."""
    has_own_home = instance.home is not None and instance.env.get("CLEW_HOME") is None
    clew = f"clew --home {shlex.quote(str(instance.home))}" if has_own_home else "clew"
    going = [s.goal_id for s in unfinished if s.goal.status != "blocked" and not s.paused]
    if len(going) == 1:
        print_note(f"{going[0]} continues; watch it again: {clew} watch {going[0]}")
    elif going:
        print_note(f"{len(going)} goals continue; watch them again: {clew} watch")


class PlainView:
    """One line for each entry, flushed, one for each line of a question, and what queued goals wait for."""

    def __init__(self) -> None:
        # why each queued goal waits, and from when that is told
        self._waits: dict[str, tuple[str, float]] = {}

    def tell(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            for text in [entry_line(entry), *(f"question: {each}" for each in _asked(entry))]:
                print(f"{clean(entry.goal or 'clew')}: {text}", flush=True)

    def draw(self, goals: Sequence[GoalView], note: str) -> None:  # noqa: ARG002 - it was told
        """Tell what a queued goal has waited for a while: that is on no record."""
        now = time.monotonic()
        for goal in goals:
            is_waiting = goal["status"] == "queued" and goal.get("waiting")
            why = now_text(goal, time.time()) if is_waiting else ""
            known, told_at = self._waits.get(goal["id"], ("", now))
            if why != known:
                self._waits[goal["id"]] = why, now + WAITS_S
            elif why and now >= told_at:
                self._waits[goal["id"]] = why, float("inf")
                print(f"{clean(goal['id'])}: {short(why, OUTPUT_CHARS)}", flush=True)


def entry_line(entry: Entry) -> str:
    """Return an entry in one line: its title, its action, and the first line of its detail."""
    text = (" " if entry.begins else ": ").join(filter(None, (entry.title, entry.action)))
    if entry.kind == "goal_blocked" or entry.begins:
        return text  # a question has lines of its own
    return ": ".join([text, *_lines(entry.detail)[:1]])


def _lines(text: str, chars: int = OUTPUT_CHARS) -> list[str]:
    return [short(each, chars) for each in text.splitlines() if each.strip()]


def _asked(entry: Entry) -> list[str]:
    return _lines(entry.detail, QUESTION_CHARS) if entry.kind == "goal_blocked" else []


def entry_lines(entry: Entry, *, several: bool) -> list[Line]:
    """Return an entry as it scrolls by on a terminal, with the first lines of its output below."""
    if entry.begins:
        return []  # what runs is shown below
    when = datetime.fromtimestamp(entry.at).astimezone().strftime("%H:%M:%S")
    goal = f"{clean(entry.goal)}  " if several and entry.goal else ""
    action = f"  {entry.action}" if entry.action else ""
    head: Line = [(f"{when} ", "dim"), (goal, "bold"), (entry.title, entry.level), (action, "")]
    if entry.kind == "action_blocked":  # one line: `clew show` has the rest
        return [[*head, (f": {short(entry.detail, OUTPUT_CHARS)}", "dim")]]
    below = _asked(entry) or _lines(entry.detail)[:OUTPUT_LINES]  # a question must not be cut
    if entry.kind == "goal_blocked" and not several:
        below = []  # it ends here, and the goal is shown in full, with the question
    return [head, *([(f"         {text}", "dim")] for text in below)]


class LiveView:
    """Entries that scroll by, and below them where the goals stand, as many as a window has room for."""

    def __init__(self, *, several: bool, foot: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False, markup=False, emoji=False)
        self.live = Live(console=self._console, auto_refresh=False, transient=True)
        self._several, self._foot = several, foot
        self._drawn_at = float("-inf")
        self._is_changed = True

    def tell(self, entries: Sequence[Entry]) -> None:
        lines = [each for entry in entries for each in entry_lines(entry, several=self._several)]
        self._is_changed = self._is_changed or bool(entries)
        if lines:
            self._console.print(self._group(lines), overflow="fold")

    def draw(self, goals: Sequence[GoalView], note: str) -> None:
        at = time.monotonic()
        if self._is_changed or at - self._drawn_at > REDRAW_S:
            self._is_changed, self._drawn_at = False, at
            self.live.update(self._group(self.standing(goals, note, time.time())), refresh=True)

    def standing(self, goals: Sequence[GoalView], note: str, at: float) -> list[Line]:
        """Return where the goals stand: those that need a person first, always one at work, as many as fit."""
        ordered, size = in_view(goals), self._console.size
        at_work = [n for n, one in enumerate(ordered) if one["status"] == "in_progress"]
        if at_work and at_work[0] > 0:
            ordered.insert(1, ordered.pop(at_work[0]))
        lines: list[Line] = []
        for most in range(max(2, size.height // 6), 1, -1):
            lines = self._standing(ordered, most, note, at)
            if len(self._console.render_lines(self._group(lines))) < size.height:
                break
        return lines

    def _standing(self, ordered: Sequence[GoalView], most: int, note: str, at: float) -> list[Line]:
        """Return the first `most` goals, each in two lines as in `clew top`, and what is below them."""
        chars = max(40, self._console.size.width - 8)
        lines: list[Line] = [[("", "")]]
        heads = columns([status_cells(goal) for goal in ordered[:most]])
        for head, goal in zip(heads, ordered, strict=False):
            lines += [head, [(f"{INDENT}{short(now_text(goal, at), chars)}", "dim")]]
        if more := len(ordered[most:]):
            lines.append([(f"… and {more} more: clew status", "dim")])
        lines += needs_lines(ordered)
        lines += [[(note, "yellow")]] if note else []
        return [*lines, *([[(self._foot, "dim")]] if self._foot else [])]

    def _group(self, lines: Sequence[Line]) -> Group:
        from rich.console import Group

        width = max(1, self._console.size.width)
        return Group(*(part for each in lines for part in wrapped(each, width)))


@contextmanager
def watch_view(*, several: bool, foot: str) -> Iterator[PlainView | LiveView]:
    """Yield the view for this stdout; `several` goals are told apart, `foot` is below a live view."""
    if not on_terminal():
        yield PlainView()
        return
    view = LiveView(several=several, foot=foot)
    with unwinding_on_sigterm(), view.live:  # otherwise the cursor stays hidden
        yield view


@contextmanager
def unwinding_on_sigterm() -> Iterator[None]:
    """Let SIGTERM leave the block like an exception."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
