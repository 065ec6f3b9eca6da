"""The arguments and options that several commands share, and the completion of goal ids."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from clew_daemon.cli.errors import CliError
from clew_daemon.cli.where import Where


def here(context: typer.Context) -> Where:
    """Give the clew that the root's options name."""
    where = context.find_object(Where)
    if where is None:
        where = Where.of(context.find_root().params.get("home"), os.environ)
    return where


def complete_goal(context: typer.Context, incomplete: str) -> list[str]:
    """List the goals that begin so; a shell wants an answer or silence, never an error."""
    from clew_daemon.cli.record import goal_ids

    try:
        return [goal for goal in goal_ids(here(context)) if goal.startswith(incomplete)]
    except (CliError, OSError):
        return []


Goal = Annotated[
    str,
    typer.Argument(
        metavar="GOAL",
        help="A goal's id, or the beginning of one.",
        autocompletion=complete_goal,
        show_default=False,
    ),
]
OptionalGoal = Annotated[
    str | None,
    typer.Argument(
        metavar="[GOAL]",
        help="A goal's id, or the beginning of one; all goals without.",
        autocompletion=complete_goal,
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
