"""Watching goals until they end or need a person: a live tree on a terminal, changes in a pipe.

It asks the daemon again and again; a daemon that is restarted meanwhile is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from clew_daemon.cli.client import NoDaemon, call
from clew_daemon.cli.output import Line, on_terminal, percent, print_lines, styled
from clew_daemon.cli.printable import clean, short
from clew_daemon.cli.tree import MARKS, action_text, closing_lines, goal_lines

if TYPE_CHECKING:
    from clew_daemon.cli.where import Where

POLL_S = 0.15
AWAY_S = 30.0
"""How long a daemon may be away, as in a restart by systemd, before watching is given up."""

STANDING_STILL = ("completed", "failed", "cancelled", "blocked")

Detail = dict[str, Any]
Shown = Callable[[Sequence[Detail]], None]


def watch(
    where: Where, goals: Sequence[str], each: Shown | None = None, poll_s: float = POLL_S
) -> bool:
    """Show the goals until none goes on by itself; true if all are completed.

    `each` is called with the details of all goals after every look. NoDaemon when it stays away.
    """
    with _shown() as show:
        while True:
            details = [_detail(where, goal) for goal in goals]
            show(details)
            if each is not None:
                each(details)
            if all(detail["status"] in STANDING_STILL for detail in details):
                break
            time.sleep(poll_s)
    if not on_terminal():
        for detail in details:
            print_lines([(f"{clean(detail['id'])}: ", ""), *line] for line in closing_lines(detail))
    return all(detail["status"] == "completed" for detail in details)


def changes(before: Detail | None, after: Detail) -> list[str]:
    """Say in lines what is new in a goal since the last look; None: there was none."""
    old = before or _NOTHING
    lines = []
    if old["status"] != after["status"]:
        reason = f": {short(after['reason'])}" if after.get("reason") else ""
        lines.append(f"{clean(after['status'])} {percent(after['progress'])}{reason}")
    if after["restarts"] > old["restarts"]:
        lines.append(f"worker restarted, epoch {after['epoch']} (restarts {after['restarts']})")
    running = {flight["seq"] for flight in old["in_flight"]}
    lines += [
        f"#{flight['seq']} {short(action_text(flight))}"
        for flight in after["in_flight"]
        if flight["seq"] not in running
    ]
    new = [name for name in after["blocked_actions"] if name not in old["blocked_actions"]]
    lines += [f"loop: refused from now on: {short(name)}" for name in new]
    return lines + _steps(old, after)


_NOTHING: Detail = {"status": "", "restarts": 0, "in_flight": [], "blocked_actions": []}


def _steps(old: Detail, after: Detail) -> list[str]:
    """Say which subtasks changed."""
    known = dict(_subtasks(old)) if "goal" in old else {}
    return [
        f"{MARKS.get(now['status'], '[?]')} {t + 1}.{s + 1} {short(now['description'])}"
        f" ({percent(after['progress'])})"
        for (t, s), now in _subtasks(after)
        if now["status"] != known.get((t, s), {"status": "pending"})["status"]
    ]


def _subtasks(detail: Detail) -> Iterator[tuple[tuple[int, int], Detail]]:
    for t, task in enumerate(detail["goal"]["tasks"]):
        for s, subtask in enumerate(task["subtasks"]):
            yield (t, s), subtask


def _detail(where: Where, goal: str) -> Detail:
    deadline = time.monotonic() + AWAY_S
    while True:
        try:
            return dict(call(where.socket, "status", goal=goal)["goal"])
        except NoDaemon:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)


@contextmanager
def _shown() -> Iterator[Shown]:
    if on_terminal():
        with _live() as show:
            yield show
    else:
        yield _Plain()


class _Plain:
    """Prints what changed, a line each."""

    def __init__(self) -> None:
        self._before: dict[str, Detail] = {}

    def __call__(self, details: Sequence[Detail]) -> None:
        for detail in details:
            name = detail["id"]
            for line in changes(self._before.get(name), detail):
                print(f"{clean(name)}: {line}", flush=True)
            self._before[name] = detail


@contextmanager
def _live() -> Iterator[Shown]:
    """Draw the goals in place, and leave their last state standing."""
    from rich.console import Console, Group
    from rich.live import Live

    console = Console(highlight=False, markup=False, emoji=False)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:

        def show(details: Sequence[Detail]) -> None:
            lines: list[Line] = []
            for detail in details:
                lines += [*goal_lines(detail), [("", "")]]
            live.update(Group(*(styled(line) for line in lines)), refresh=True)

        yield show
