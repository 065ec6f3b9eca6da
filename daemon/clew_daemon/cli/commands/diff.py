"""`clew diff`: what a goal, or one of its subtasks, changed in its workspace."""

import os
from collections.abc import Iterator

import click

from clew_daemon.cli import parameters
from clew_daemon.reading import diff as views
from clew_daemon.reading.errors import print_note
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import on_terminal, print_json


@click.command()
@parameters.goal
@parameters.subtask
@click.option("--stat", is_flag=True, help="Show the files with counts of lines instead.")
@parameters.as_json
@click.pass_obj
def diff(instance: Instance, goal: str, subtask: str | None, stat: bool, as_json: bool) -> None:
    """Show what a goal, or one of its subtasks, changed in its workspace, as a unified diff."""
    if stat and as_json:
        raise click.UsageError("use one of --stat and --json")
    at = parameters.position(instance, goal, subtask)
    views.hide_keys(instance)
    with views.goal_diff(instance, goal, at) as found:
        if as_json:
            print_json(views.json_view(found, at))
        elif on_terminal():
            os.environ.setdefault("LESS", "FRX")  # colours, and an end at once where all fits
            colour = not os.environ.get("NO_COLOR")
            text = [*_lines(found, stat=stat, colour=colour), "\n".join(views.notes(found))]
            click.echo_via_pager(text, color=colour)  # it ends the last line
        else:
            for line in _lines(found, stat=stat, colour=False):
                print(line, end="")
            for note in views.notes(found):
                print_note(note)


def _lines(found: views.GoalDiff, *, stat: bool, colour: bool) -> Iterator[str]:
    if stat:
        yield from (f"{line}\n" for line in views.stat_lines(found, colour=colour))
        return
    for kind, text in views.diff_lines(found):
        yield f"{views.coloured(kind, text) if colour else text}\n"
