"""`clew diff`: what a goal, or one of its subtasks, changed in its workspace."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from clew_daemon.cli import parameters, subtasks
from clew_daemon.reading.errors import print_note
from clew_daemon.reading.output import on_terminal, print_json
from clew_daemon.reading.queries import goal_id, goal_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clew_daemon.cli.commands.diff.changes import GoalDiff
    from clew_daemon.reading.instance import Instance


LESS = "less -FRX"
"""Colours, no screen of its own, and an end at once where all fits on the screen."""

NONE = ("", "cat")


@contextmanager
def paged() -> Iterator[Callable[[str], object]]:
    """Yield a function that writes text; the block ends early if the person closes the pager."""
    command = _command() if on_terminal() else ""
    if not command:
        yield sys.stdout.write
        return
    sys.stdout.flush()
    pager = subprocess.Popen(  # noqa: S602 - the person's own command, as other programs run it
        command,
        shell=True,
        stdin=subprocess.PIPE,
        text=True,
        errors="backslashreplace",
        env={"LESS": "FRX", **os.environ},
    )
    assert pager.stdin is not None  # noqa: S101 - a pipe
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pager
    try:
        with suppress(BrokenPipeError):
            yield pager.stdin.write
        with suppress(BrokenPipeError):
            pager.stdin.close()
        pager.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _command() -> str:
    """Return the command of the pager, "" for none."""
    named = os.environ.get("PAGER")
    if named is not None:
        return "" if named.strip() in NONE else named
    return LESS if shutil.which("less") else ""


@click.command()
@parameters.goal
@subtasks.subtask
@click.option("--stat", is_flag=True, help="Show the files with counts of lines instead.")
@click.option("--name-only", is_flag=True, help="Show the names of the files instead.")
@parameters.as_json
@click.pass_obj
def diff(
    instance: Instance, goal: str, subtask: str | None, stat: bool, name_only: bool, as_json: bool
) -> None:
    """Show what a goal, or one of its subtasks, changed in its workspace, as a unified diff."""
    from clew_daemon.cli.commands.diff.changes import goal_diff
    from clew_daemon.cli.commands.diff.views import json_view

    if stat + name_only + as_json > 1:
        raise click.UsageError("use one of --stat, --name-only and --json")
    name = goal_id(instance, goal)
    at = subtasks.position(name, goal_state(instance, name).goal, subtask)
    hide_keys(instance)
    with goal_diff(instance, name, at) as found:
        if as_json:
            print_json(json_view(found, at))
        else:
            _print(found, stat=stat, name_only=name_only)


def hide_keys(instance: Instance) -> None:
    """Let no key of an agent be shown, as far as the keys can be read here."""
    from clew_daemon.host.keys import Keys
    from clew_daemon.reading.errors import CliError

    try:
        Keys(instance.env, instance.config.parent).hide(instance.settings)
    except CliError:  # a broken config: what looks like a key is still not shown
        return


def _print(found: GoalDiff, *, stat: bool, name_only: bool) -> None:
    from clew_daemon.cli.commands.diff import views

    colour = on_terminal() and not os.environ.get("NO_COLOR")
    with paged() as write:
        if name_only:
            lines = views.names(found)
        elif stat:
            lines = views.stat_lines(found, colour=colour)
        else:
            lines = views.diff_lines(found, colour=colour)
        for line in lines:
            write(line)
        notes = list(views.notes(found))
        if on_terminal():
            write("".join(f"{note}\n" for note in notes))
    if not on_terminal():
        for note in notes:
            print_note(note)
