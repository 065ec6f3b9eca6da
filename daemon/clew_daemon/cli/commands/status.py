"""`clew status`: all goals, or one goal's tree and progress.

It asks the daemon; where none answers it shows the last state on record, and says so at the end.
"""

from __future__ import annotations

from typing import Any

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line, print_json, print_lines
from clew_daemon.reading.queries import all_goals, goal_id, one_goal
from clew_daemon.reading.sanitize import clean

RECENT = 10
"""How many goals that have ended the list shows."""

DAEMON_KEYS = ("pid", "version", "uptime_s", "ready", "config_error")


@click.command()
@parameters.optional_goal
@click.option(
    "-n",
    "--limit",
    type=parameters.Number(0, 1 << 62),
    metavar="N",
    help=f"Show the last N that have ended (default {RECENT}, with --json {parameters.LIMIT_JSON}).",
)
@click.option("--all", "every", is_flag=True, help="Show all that have ended.")
@click.option("--before", metavar="ID", help="Only goals accepted before this one.")
@parameters.as_json
@click.pass_obj
def status(
    instance: Instance,
    goal: str | None,
    limit: int | None,
    every: bool,
    before: str | None,
    as_json: bool,
) -> None:
    """Show the goals that have not ended and the last that have, or one goal's tree and progress.

    Goals that need you come first, those that have ended last.
    """
    if goal is not None:
        view = one_goal(instance, goal_id(instance, goal))
    else:
        shown = parameters.limited(0 if every else limit, as_json=as_json, default=RECENT)
        last = None if before is None else goal_id(instance, before)
        view = all_goals(instance, shown, last)
    daemon = view["daemon"]
    if as_json:
        view["daemon"] = daemon and {**daemon, **{key: daemon.get(key) for key in DAEMON_KEYS}}
        print_json(view)
        return
    print_lines(_lines(instance, view))


def _lines(instance: Instance, view: dict[str, Any]) -> list[Line]:
    from clew_daemon.reading.goal_list import daemon_lines, no_daemon_line

    daemon, is_stopped = view["daemon"], {"stopped": view["daemon"] is None}
    if "goal" in view:
        from clew_daemon.reading.goal_text import goal_lines

        goal = {**view["goal"], **is_stopped}
        shown = goal_lines(goal, report=instance.report_of(goal["id"]))
    else:
        shown = _list_lines(instance, view, [{**goal, **is_stopped} for goal in view["goals"]])
    if daemon is not None:
        return [*daemon_lines(daemon), *shown]
    return [*shown, no_daemon_line(instance.holder, instance.socket.to_start)]


def _list_lines(
    instance: Instance, view: dict[str, Any], found: list[dict[str, Any]]
) -> list[Line]:
    from clew_daemon.reading.goal_list import (
        in_view,
        inbox_lines,
        left_out_lines,
        needs_lines,
        overview,
    )

    goals = in_view(found)
    none = f"no goals yet; start one with `clew submit FILE`, or put a file into {instance.places.inbox}"
    return [
        *inbox_lines(view.get("inbox") or ()),
        *(overview(goals) or [[(clean(none), "dim")]]),
        *left_out_lines(goals, view.get("left_out") or 0),
        *needs_lines(goals),
    ]
