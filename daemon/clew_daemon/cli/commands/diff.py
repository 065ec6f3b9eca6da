"""`clew diff`: what a goal, or one of its subtasks, changed in its workspace."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.errors import print_note
from clew_daemon.reading.output import on_terminal, print_json
from clew_daemon.reading.queries import goal_id, goal_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_daemon.reading.diff import GoalDiff
    from clew_daemon.reading.instance import Instance


@click.command()
@parameters.goal
@parameters.subtask
@click.option("--stat", is_flag=True, help="Show the files with counts of lines instead.")
@parameters.as_json
@click.pass_obj
def diff(instance: Instance, goal: str, subtask: str | None, stat: bool, as_json: bool) -> None:
    """Show what a goal, or one of its subtasks, changed in its workspace, as a unified diff."""
    from clew_daemon.reading.diff import goal_diff, hide_keys, json_view, notes

    if stat and as_json:
        raise click.UsageError("use one of --stat and --json")
    name = goal_id(instance, goal)
    at = parameters.position(name, goal_state(instance, name).goal, subtask)
    hide_keys(instance)
    with goal_diff(instance, name, at) as found:
        if as_json:
            print_json(json_view(found, at))
        elif on_terminal():
            os.environ.setdefault("LESS", "FRX")  # colours, and an end at once where all fits
            colour = not os.environ.get("NO_COLOR")
            click.echo_via_pager(_lines(found, stat=stat, colour=colour), color=colour)
        else:
            for line in _lines(found, stat=stat, colour=False, noted=False):
                print(line, end="")
            for note in notes(found):
                print_note(note)


def _lines(found: GoalDiff, *, stat: bool, colour: bool, noted: bool = True) -> Iterator[str]:
    from clew_daemon.reading import diff as views

    if stat:
        yield from (f"{line}\n" for line in views.stat_lines(found, colour=colour))
    else:
        for kind, text in views.diff_lines(found):
            yield f"{views.coloured(kind, text) if colour else text}\n"
    if noted:
        yield "\n".join(views.notes(found))  # the pager ends the last line
