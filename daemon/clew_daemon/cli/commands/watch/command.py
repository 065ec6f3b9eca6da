"""`clew watch`, and the watching that `submit --wait` and `demo` do as well."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.commands.watch.watched import Watched
from clew_daemon.reading.errors import print_note
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line, on_terminal, print_lines
from clew_daemon.reading.queries import goal_id
from clew_daemon.reading.sanitize import clean
from clew_shared.exit_codes import ExitCode

POLL_S = 0.1
REPORT_S = 2.0
FOOT = "Ctrl-C stops watching; the goals continue."


@click.command("watch")
@parameters.some_goals
@click.pass_obj
def command(instance: Instance, goals: tuple[str, ...]) -> None:
    """Show what goals do as it happens, until they end or need you; without GOAL all goals, until Ctrl-C.

    Ctrl-C stops watching; the goals continue, and can be watched again at any time. Exit code 0: all were completed;
    1: one was not; 3: the daemon ended and did not start again; 130: Ctrl-C while a given goal was still running.
    """
    names = list(dict.fromkeys(goal_id(instance, goal) for goal in goals))
    is_completed = watch(instance, names, attach=True)
    raise click.exceptions.Exit(0 if is_completed else ExitCode.FAILED)


def watch(
    instance: Instance,
    goals: Sequence[str],
    each: Callable[[Sequence[dict[str, Any]]], None] | None = None,
    *,
    attach: bool = False,
    stays: bool = True,
    poll_s: float = POLL_S,
) -> bool:
    """Show the goals until none goes on without a person; return whether all were completed.

    No `goals` means all goals, until Ctrl-C. Earlier events are shown from the beginning, or with `attach` only the
    last actions. `each` is called with the details of the goals after every look. `stays` says that the daemon
    outlives a Ctrl-C here. Raises CliError if the daemon ends and does not start again.
    """
    from clew_daemon.cli.commands.watch.view import watch_view
    from clew_daemon.cli.commands.watch.watched import Watched

    watched = Watched(instance, goals, attach=attach)
    was_at_rest: bool | None = None
    try:
        foot = FOOT if stays else ""
        several = len(goals) != 1
        with closing(watched), watch_view(several=several, foot=foot) as view:
            report_until = 0.0
            while True:
                view.tell(watched.read())
                if goals and each is not None and watched.states:
                    each(watched.details())
                view.draw(watched.views(), watched.note)
                is_at_rest, now = watched.is_at_rest, time.monotonic()
                was_at_rest = is_at_rest if was_at_rest is None else was_at_rest
                if is_at_rest:
                    report_until = report_until or now + (REPORT_S if stays else 0.0)
                    if now >= report_until or watched.are_reported:
                        break
                time.sleep(poll_s)
    except KeyboardInterrupt:
        if not stays:
            raise
        _print_goodbye(instance, watched.unfinished)
        code = ExitCode.INTERRUPTED if goals and watched.unfinished else 0
        raise click.exceptions.Exit(code) from None
    _print_end(instance, watched, whole=bool(attach and was_at_rest), with_reports=stays)
    return watched.is_completed


def _print_end(instance: Instance, watched: Watched, *, whole: bool, with_reports: bool) -> None:
    """Print how the goals ended; `whole`: nothing was told of them before."""
    from clew_daemon.reading.goal_text import answer_lines, closing_lines, goal_lines

    for detail in watched.details():
        report = instance.report_of(detail["id"]) if with_reports else ""
        if on_terminal() or whole:
            print_lines(goal_lines(detail, report=report))
            continue
        is_asking = detail["status"] == "blocked"  # and its question was told
        lines: list[Line] = [*(answer_lines(detail) if is_asking else closing_lines(detail))]
        lines += [[("report: ", ""), (report, "")]] if report else []
        print_lines([(f"{clean(detail['id'])}: ", ""), *one] for one in lines)


def _print_goodbye(instance: Instance, unfinished: Mapping[str, bool]) -> None:
    """Print which goals continue, how to watch them again, and how many need a person; see `unfinished`."""
    has_own_home = instance.home is not None and instance.env.get("CLEW_HOME") is None
    clew = f"clew --home {shlex.quote(str(instance.home))}" if has_own_home else "clew"
    going = [goal for goal, goes_on in unfinished.items() if goes_on]
    needing = [goal for goal, goes_on in unfinished.items() if not goes_on]
    if len(going) == 1:
        print_note(f"{going[0]} continues; watch it again: {clew} watch {going[0]}")
    elif going:
        print_note(f"{len(going)} goals continue; watch them again: {clew} watch")
    if len(needing) == 1:
        print_note(f"{needing[0]} needs you: {clew} status {needing[0]}")
    elif needing:
        print_note(f"{len(needing)} need you: {clew} status")
