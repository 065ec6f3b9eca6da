"""`clew undo`: restores what a goal, or one of its subtasks, has changed in the workspace.

The daemon decides what is restored, and restores it; this shows it first, and asks.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

import click

from clew_daemon.cli import parameters, subtasks
from clew_daemon.control.requests import UndoRequest
from clew_daemon.reading.client import NoAnswer, send
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.output import print_json, print_lines
from clew_daemon.reading.queries import goal_id, goal_state
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from clew_daemon.reading.instance import Instance
    from clew_daemon.undo.view import UndoView

DEADLINE_S = 1800.0
"""How long an answer may take: a snapshot takes up to minutes, and so does each batch of entries."""


@click.command()
@parameters.goal
@subtasks.subtask
@click.option("--yes", is_flag=True, help="Do not ask, for scripts.")
@click.option(
    "--theirs", is_flag=True, help="Also overwrite what someone else changed, or a later subtask."
)
@parameters.as_json
@click.pass_obj
def undo(
    instance: Instance, goal: str, subtask: str | None, yes: bool, theirs: bool, as_json: bool
) -> None:
    """Restore what a goal, or one of its subtasks, has changed in the workspace.

    It shows what it will do, and asks. The same command again reverts the undo, if nothing else is left to undo. With
    --json and without --yes it only shows.

    An edit that is made while a step runs cannot be told from the step's own, and is undone with it. Files above
    `[snapshots] max_file_mb` are in no snapshot: they are not restored.
    """
    from clew_daemon.cli.display.undo import done_lines

    name = goal_id(instance, goal)
    at = subtasks.position(name, goal_state(instance, name).goal, subtask)
    request = UndoRequest(name, at, theirs, yes, None)
    again = f"clew undo {name}" + (f" {at[0] + 1}.{at[1] + 1}" if at else "")
    if not (yes or as_json):
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise click.UsageError("there is no terminal to ask on: add --yes, or --json to look")
        answer = _converse(instance, request, again)
    else:
        answer = _ask(instance, request)
        if as_json:
            print_json(answer)
        else:
            print_lines(done_lines(answer, again, shown=False))
    if not _is_done(answer, performed=yes or not as_json):
        raise click.exceptions.Exit(ExitCode.FAILED)


def _ask(instance: Instance, request: UndoRequest) -> UndoView:
    try:
        return cast("UndoView", send(instance.socket, request, within_s=DEADLINE_S))
    except NoAnswer as error:
        message = f"{error.message}\nThe undo goes on meanwhile, and is completed in any case."
        raise CliError(message) from None


def _converse(instance: Instance, request: UndoRequest, again: str) -> UndoView:
    """Show the plan and ask until it is accepted as it is, or declined; return the last answer."""
    from clew_daemon.cli.display.undo import done_lines, plan_lines, theirs_question

    theirs = request.theirs
    answer = _ask(instance, request)
    while not answer["resumed"]:
        print_lines(plan_lines(answer, again, theirs=theirs))
        count = answer["entries_total"] + (answer["theirs_total"] if theirs else 0)
        if not count or answer["moved"]:
            return answer
        agreed = _confirmed("Undo this?")
        if agreed and theirs and answer["theirs_total"]:
            agreed = _confirmed(theirs_question(answer))
        if not agreed:
            raise CliError("nothing was changed")
        shown = answer["plan"]
        answer = _ask(instance, UndoRequest(request.goal, request.subtask, theirs, True, shown))
        if answer["done"] or answer["moved"] or answer["plan"] == shown:
            print_lines(done_lines(answer, again, shown=True))
            return answer
        print("\nMeanwhile something has changed, and nothing was restored. Now it would be:\n")
    print_lines(done_lines(answer, again, shown=False))
    return answer


def _confirmed(question: str) -> bool:
    try:
        return click.confirm(question)
    except click.Abort:  # Ctrl-C or Ctrl-D at the prompt
        print()
        return False


def _is_done(answer: UndoView, *, performed: bool) -> bool:
    """Return whether what was asked for holds: all that may be restored is restored, or there is nothing to undo."""
    failed = any("stays" not in one for one in answer["failed"])
    if answer["moved"] or failed or answer["changed"]:
        return False
    if not performed or answer["restored"] or answer["folders"]:
        return True
    return not (answer["left_total"] or answer["entries_total"])
