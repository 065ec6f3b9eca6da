"""`clew status`: all goals, or one goal's tree and progress.

It asks the daemon; where none answers it shows the last state on record.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.control.requests import StatusRequest
from clew_daemon.reading.client import ask_soon
from clew_daemon.reading.output import Line, print_json, print_lines
from clew_daemon.reading.sanitize import clean

if TYPE_CHECKING:
    from clew_daemon.reading.instance import Instance

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
        view = one_goal(instance, goal)
    else:
        if limit is None:
            limit = parameters.LIMIT_JSON if as_json else RECENT
        view = all_goals(instance, None if every else limit or None, before)
    daemon = view["daemon"]
    if as_json:
        view["daemon"] = daemon and {**daemon, **{key: daemon.get(key) for key in DAEMON_KEYS}}
        print_json(view)
        return
    from clew_daemon.reading.daemon_text import daemon_lines

    silent = daemon is None
    holder, to_start = (instance.holder, instance.socket.to_start) if silent else (None, "")
    lines = daemon_lines(daemon, holder, to_start)
    shown = _goal_lines(instance, view) if goal is not None else _list_lines(instance, view)
    print_lines([*lines, *shown])


def _goal_lines(instance: Instance, view: dict[str, Any]) -> list[Line]:
    from clew_daemon.reading.goal_text import goal_lines

    goal = view["goal"] if view["daemon"] else {**view["goal"], "stopped": True}
    return goal_lines(goal, report=instance.report_of(view["goal"]["id"]))


def _list_lines(instance: Instance, view: dict[str, Any]) -> list[Line]:
    from clew_daemon.reading.daemon_text import inbox_lines
    from clew_daemon.reading.goal_list import in_view, left_out_lines, needs_lines, overview

    goals = in_view(view["goals"])
    if view["daemon"] is None:
        goals = [{**goal, "stopped": True} for goal in goals]
    none = f"no goals yet; start one with `clew submit FILE`, or put a file into {instance.places.inbox}"
    return [
        *inbox_lines(view.get("inbox") or ()),
        *(overview(goals) or [[(clean(none), "dim")]]),
        *left_out_lines(goals, view.get("left_out") or 0),
        *needs_lines(goals),
    ]


def all_goals(instance: Instance, limit: int | None, before: str | None) -> dict[str, Any]:
    """Return the answer to `status` on all goals: the daemon's, or without one that of the ledger."""
    from clew_daemon.reading.queries import goal_id, listed_states, stuck, waits

    last = None if before is None else goal_id(instance, before)
    answer = ask_soon(instance.socket, StatusRequest(limit=limit, before=last))
    if answer is not None:
        return dict(answer)
    from clew_daemon.inbox.leftovers import left
    from clew_shared.views.publish import status_view

    states, left_out = listed_states(instance, limit, last)
    now = time.time()
    waiting, needy = waits(instance, states, now), stuck(instance, states)
    goals = [
        status_view(one, now, waiting.get(one.goal_id, ""), stuck=one.goal_id in needy)
        for one in states
    ]
    more = {"more": left_out > 0, "left_out": left_out}
    return {"daemon": None, "goals": goals, **more, **left(instance.places.inbox).view()}


def one_goal(instance: Instance, goal: str) -> dict[str, Any]:
    """Return the answer to `status` on one goal: the daemon's, or without one that of the ledger."""
    from clew_daemon.reading.queries import goal_id, goal_state, stuck, waits

    name = goal_id(instance, goal)
    answer = ask_soon(instance.socket, StatusRequest(name))
    if answer is not None:
        return {**answer, "goal": _with_own_changes(instance, answer["goal"])}
    from clew_daemon.record.goal_limits import attempt_limits
    from clew_shared.views.publish import goal_detail

    state, now = goal_state(instance, name), time.time()
    waiting = waits(instance, [state], now).get(name, "")
    limit = attempt_limits(state, instance.settings_for_display).limit
    detail = goal_detail(state, now, waiting, stuck=bool(stuck(instance, [state])))
    detail = _with_own_changes(instance, {**detail, "attempt_limit": limit})
    return {"daemon": None, "goal": detail}


_OWN_CHANGES: dict[tuple[Any, ...], dict[str, int]] = {}
"""Counts of changes, for as long as no other snapshot was taken: `clew top` asks every second."""


def _with_own_changes(instance: Instance, detail: dict[str, Any]) -> dict[str, Any]:
    """Return a goal's entry with the changes counted that are its own, as `clew diff` and the report count them."""
    known = detail["snapshots"]
    if not known["files_changed"]:
        return detail
    key = (str(instance.places.snapshots), detail["id"], known["taken"], known["undo"])
    if key not in _OWN_CHANGES:
        from clew_daemon.reading.queries import own_changes

        _OWN_CHANGES.clear()
        _OWN_CHANGES[key] = own_changes(instance, detail["id"])
    return {**detail, "snapshots": {**known, **_OWN_CHANGES[key]}}
