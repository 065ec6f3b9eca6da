"""The arguments and options that several commands share, and the completion of goals."""

from __future__ import annotations

import os

import click

from clew_daemon.cli.errors import CliError
from clew_daemon.cli.where import Where


def complete_goal(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """List the names and ids of goals that begin so; a shell wants an answer or silence, never an error."""
    from clew_daemon.cli.record import goal_words

    where = Where.of(context.find_root().params.get("home"), os.environ)
    try:
        return [word for word in goal_words(where) if word.startswith(incomplete)]
    except (CliError, OSError):
        return []


goal = click.argument(
    "goal",
    metavar="GOAL",
    help="A goal's name or id, or the beginning of either.",
    shell_complete=complete_goal,
)
optional_goal = click.argument(
    "goal",
    metavar="[GOAL]",
    required=False,
    help="A goal's name or id, or the beginning of either; omit for all goals.",
    shell_complete=complete_goal,
)
goals = click.argument(
    "goals",
    metavar="GOAL...",
    nargs=-1,
    help="Names or ids of goals, or their beginnings.",
    shell_complete=complete_goal,
)
all_goals = click.option(
    "--all", "every", is_flag=True, help="All goals to which the command applies."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
LIMIT, LIMIT_JSON = 100, 1_000
SEQ = click.IntRange(1, (1 << 63) - 1)  # what SQLite can number
limit = click.option(
    "-n",
    "--limit",
    type=click.IntRange(0, 1 << 62),
    metavar="N",
    help=f"At most so many, the last ones ({LIMIT}; with --json {LIMIT_JSON}); 0 for all.",
)


def limited(limit: int | None, *, as_json: bool) -> int | None:
    """Return how many are asked for; None for all."""
    if limit is None:
        return LIMIT_JSON if as_json else LIMIT
    return limit or None
