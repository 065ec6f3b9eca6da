"""`clew status`: all goals, or one goal's tree and progress.

It asks the daemon; where none answers it shows the last state on record.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.client import ask_soon
from clew_daemon.cli.display.output import Line, print_json, print_lines
from clew_daemon.cli.display.sanitize import clean
from clew_daemon.control.requests import StatusRequest

if TYPE_CHECKING:
    from clew_daemon.cli.instance import Instance

DAEMON_KEYS = ("pid", "version", "uptime_s", "ready", "config_error")


@click.command()
@parameters.optional_goal
@parameters.limit
@click.option("--before", metavar="ID", help="Only goals accepted before this one.")
@parameters.as_json
@click.pass_obj
def status(
    instance: Instance, goal: str | None, limit: int | None, before: str | None, as_json: bool
) -> None:
    """Show the goals that have not ended and the last that have, or one goal's tree and progress."""
    if goal is not None:
        view = one_goal(instance, goal)
    else:
        view = all_goals(instance, parameters.limited(limit, as_json=as_json), before)
    daemon = view["daemon"]
    if as_json:
        view["daemon"] = daemon and {**daemon, **{key: daemon.get(key) for key in DAEMON_KEYS}}
        print_json(view)
        return
    from clew_daemon.cli.display.daemon import daemon_lines

    lines = daemon_lines(daemon, instance.holder if daemon is None else None)
    shown = _goal_lines(instance, view) if goal is not None else _list_lines(instance, view)
    print_lines([*lines, *shown])


def _goal_lines(instance: Instance, view: dict[str, Any]) -> list[Line]:
    from clew_daemon.cli.display.goal import goal_lines

    return goal_lines(view["goal"], report=instance.report_of(view["goal"]["id"]))


def _list_lines(instance: Instance, view: dict[str, Any]) -> list[Line]:
    from clew_daemon.cli.display.daemon import inbox_lines
    from clew_daemon.cli.display.goal import ENDED
    from clew_daemon.cli.display.goal_list import needs_lines, overview

    goals = view["goals"]
    first = next((one["id"] for one in goals if one["status"] in ENDED), "")
    command = f"clew status --before {first}"
    none = f"no goals yet; start one with `clew submit FILE`, or put a file into {instance.places.inbox}"
    return [
        *inbox_lines(view.get("inbox") or ()),
        *parameters.earlier_lines(view.get("more"), "goals that have ended", command),
        *(overview(goals) or [[(clean(none), "dim")]]),
        *needs_lines(goals),
    ]


def all_goals(instance: Instance, limit: int | None, before: str | None) -> dict[str, Any]:
    """Return the answer to `status` on all goals: the daemon's, or without one that of the ledger."""
    from clew_daemon.cli.queries import goal_id, listed_states, waits

    last = None if before is None else goal_id(instance, before)
    answer = ask_soon(instance.socket, StatusRequest(limit=limit, before=last))
    if answer is not None:
        return dict(answer)
    from clew_daemon.inbox.leftovers import left
    from clew_shared.views.publish import status_view

    states, more = listed_states(instance, limit, last)
    now = time.time()
    waiting = waits(instance, states, now)
    goals = [status_view(one, now, waiting.get(one.goal_id, "")) for one in states]
    return {"daemon": None, "goals": goals, "more": more, **left(instance.places.inbox).view()}


def one_goal(instance: Instance, goal: str) -> dict[str, Any]:
    """Return the answer to `status` on one goal: the daemon's, or without one that of the ledger."""
    from clew_daemon.cli.queries import goal_id, goal_state, waits

    name = goal_id(instance, goal)
    answer = ask_soon(instance.socket, StatusRequest(name))
    if answer is not None:
        return dict(answer)
    from clew_daemon.record.goal_limits import attempt_limits
    from clew_shared.views.publish import goal_detail

    state, now = goal_state(instance, name), time.time()
    waiting = waits(instance, [state], now).get(name, "")
    limit = attempt_limits(state, instance.settings_for_display).limit
    return {"daemon": None, "goal": {**goal_detail(state, now, waiting), "attempt_limit": limit}}
