"""`clew show`: one action in full, as it is on record."""

from __future__ import annotations

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.actions import action_lines, whole_action
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import print_json, print_lines
from clew_daemon.reading.queries import goal_id


@click.command()
@parameters.goal
@click.argument(
    "seq",
    type=parameters.SEQ,
    metavar="SEQ",
    help="The action's number, as `clew history GOAL` lists it.",
)
@parameters.as_json
@click.pass_obj
def show(instance: Instance, goal: str, seq: int, as_json: bool) -> None:
    """Show one action in full: arguments, verdict, result, time, and all of its output."""
    name = goal_id(instance, goal)
    action = whole_action(instance, name, seq)
    if as_json:
        print_json({"goal": name, "action": action})
    else:
        print_lines(action_lines(name, action))
