"""`clew status`: all goals, or one goal's tree and progress.

It asks the daemon; where none answers it shows the last state on record, and says so at the end.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import Line, show
from clew_daemon.reading.queries import all_goals, goal_id, one_goal
from clew_daemon.reading.sanitize import clean

RECENT = 10
"""How many goals that have ended the list shows."""

DAEMON_KEYS = ("pid", "version", "uptime_s", "ready", "config_error")


@click.command()
@parameters.optional_goal
@parameters.limit(RECENT, " that have ended")
@click.option("--all", "every", is_flag=True, help="Show all that have ended.")
@click.option("--before", metavar="ID", help="Only goals accepted before this one.")
@parameters.as_json
@click.pass_obj
def status(
    instance: Instance, goal: str | None, limit: int, every: bool, before: str, as_json: bool
) -> None:
    """Show the goals that have not ended and the last that have, or one goal's tree and progress.

    Goals that need you come first, those that have ended last.
    """
    if goal is not None:
        view = one_goal(instance, goal)
    else:
        last = goal_id(instance, before) if before else None
        view = all_goals(instance, None if every else limit, last)
    if daemon := view["daemon"]:
        view["daemon"] = {**daemon, **{key: daemon.get(key) for key in DAEMON_KEYS}}
    show(view, _lines(instance, view), as_json=as_json)


def _lines(instance: Instance, view: Mapping[str, Any]) -> Iterator[Line]:
    from clew_daemon.reading import goal_list
    from clew_daemon.reading.goal_text import goal_lines

    daemon, is_stopped = view["daemon"], {"stopped": view["daemon"] is None}
    if daemon:
        yield from goal_list.daemon_lines(daemon)
    if "goal" in view:
        report = instance.report_of(view["goal"]["id"])
        yield from goal_lines({**view["goal"], **is_stopped}, report=report)
    else:
        goals = goal_list.in_view({**goal, **is_stopped} for goal in view["goals"])
        none = f"no goals yet; start one with `clew submit FILE`, or put a file into {instance.places.inbox}"
        yield from goal_list.inbox_lines(view.get("inbox") or ())
        yield from goal_list.overview(goals) or [[(clean(none), "dim")]]
        yield from goal_list.left_out_lines(goals, view.get("left_out") or 0)
        yield from goal_list.needs_lines(goals)
    if daemon is None:
        yield goal_list.no_daemon_line(instance.holder, instance.socket.to_start)
