"""`clew watch`, and the watching that `submit --wait` and `demo` do as well."""

from __future__ import annotations

import shlex
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.errors import print_note
from clew_daemon.reading.output import on_terminal
from clew_daemon.reading.queries import goal_id
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from clew_daemon.cli.commands.watch.live_view import WatchView
    from clew_daemon.cli.commands.watch.watched_goals import GoalDetail
    from clew_daemon.reading.instance import Instance

POLL_S = 0.1
FOOT = "Ctrl-C stops watching; the goals continue."


@click.command("watch")
@parameters.some_goals
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line, for each event."
)
@click.pass_obj
def command(instance: Instance, goals: tuple[str, ...], as_json: bool) -> None:
    """Show what goals do as it happens, until they end or need you; without GOAL all goals, until Ctrl-C.

    Ctrl-C stops watching; the goals continue, and can be watched again at any time. Exit code 0: all were completed;
    1: one was not; 3: the daemon ended and did not start again; 130: Ctrl-C while a given goal was still running.
    """
    names = list(dict.fromkeys(goal_id(instance, goal) for goal in goals))
    is_completed = watch(instance, names, attach=True, as_json=as_json)
    raise click.exceptions.Exit(0 if is_completed else ExitCode.FAILED)


def watch(
    instance: Instance,
    goals: Sequence[str],
    each: Callable[[Sequence[GoalDetail]], None] | None = None,
    *,
    attach: bool = False,
    as_json: bool = False,
    stays: bool = True,
    poll_s: float = POLL_S,
) -> bool:
    """Show the goals until none goes on without a person; return whether all were completed.

    No `goals` means all goals, until Ctrl-C. Earlier events are shown from the beginning, or with `attach` only the
    last actions. `each` is called with the details of the goals after every look. `stays` says that the daemon
    outlives a Ctrl-C here. Raises CliError if the daemon ends and does not start again.
    """
    from clew_daemon.cli.commands.watch.watched_goals import WatchedGoals

    watched = WatchedGoals(instance, goals, attach=attach)
    try:
        several, foot = len(goals) != 1, FOOT if stays else ""
        with watched.open(), _view(as_json=as_json, several=several, foot=foot) as view:
            watched.begin(view)
            while not watched.is_at_rest:
                time.sleep(poll_s)
                watched.look(view, each)
            if stays and not as_json:
                watched.await_reports(view)
    except KeyboardInterrupt:
        if not stays:
            raise
        unfinished = watched.unfinished
        _print_goodbye(instance, unfinished)
        raise click.exceptions.Exit(ExitCode.INTERRUPTED if goals and unfinished else 0) from None
    if not as_json:
        watched.print_end(with_reports=stays)
    return watched.is_completed


@contextmanager
def _view(*, as_json: bool, several: bool, foot: str) -> Iterator[WatchView]:
    """Yield the view for this stdout; `several` goals are told apart, `foot` is below a live view."""
    from clew_daemon.cli.commands.watch.live_view import JsonView, PlainView

    if as_json:
        yield JsonView()
    elif on_terminal():
        from clew_daemon.cli.commands.watch.live_view import live_view

        with live_view(several=several, foot=foot) as view:
            yield view
    else:
        yield PlainView()


def _print_goodbye(instance: Instance, unfinished: Mapping[str, bool]) -> None:
    """Print which goals continue, how to watch them again, and how many need a person; see `unfinished`."""
    has_own_home = instance.home is not None and instance.env.get("CLEW_HOME") is None
    clew = f"clew --home {shlex.quote(str(instance.home))}" if has_own_home else "clew"
    going = [goal for goal, goes_on in unfinished.items() if goes_on]
    needing = [goal for goal, goes_on in unfinished.items() if not goes_on]
    lines = []
    if len(going) == 1:
        lines.append(f"{going[0]} continues; watch it again: {clew} watch {going[0]}")
    elif going:
        lines.append(f"{len(going)} goals continue; watch them again: {clew} watch")
    if len(needing) == 1:
        lines.append(f"{needing[0]} needs you: {clew} status {needing[0]}")
    elif needing:
        lines.append(f"{len(needing)} need you: {clew} status")
    for line in lines:
        print_note(line)
