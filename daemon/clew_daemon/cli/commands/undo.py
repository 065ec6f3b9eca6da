"""`clew undo`: restores what a goal, or one of its subtasks, has changed in the workspace.

The daemon decides what is restored, and restores it; this shows it first, and asks.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

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
    name = goal_id(instance, goal)
    at = subtasks.position(name, goal_state(instance, name).goal, subtask)
    asker = _Undoing(instance, name, at, theirs=theirs)
    if yes or as_json:
        answer = asker.ask(perform=yes)
        if as_json:
            print_json(answer)
        else:
            _print_done(answer, asker.again, shown=False)
    else:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise click.UsageError("there is no terminal to ask on: add --yes, or --json to look")
        answer = asker.converse()
    if not _is_done(answer, performed=yes or not as_json):
        raise click.exceptions.Exit(ExitCode.FAILED)


class _Undoing:
    """The conversation about one undo: with the daemon, and with the person."""

    def __init__(
        self, instance: Instance, goal: str, at: subtasks.Position | None, *, theirs: bool
    ) -> None:
        self._instance = instance
        self._goal = goal
        self._at = at
        self._theirs = theirs

    @property
    def again(self) -> str:
        """The command that reverts this undo once it is done."""
        number = f" {self._at[0] + 1}.{self._at[1] + 1}" if self._at else ""
        return f"clew undo {self._goal}{number}"

    def ask(self, *, perform: bool, expected: str | None = None) -> dict[str, Any]:
        """Ask the daemon what it would do, or to do it."""
        request = UndoRequest(self._goal, self._at, self._theirs, perform, expected)
        try:
            return dict(send(self._instance.socket, request, within_s=DEADLINE_S))
        except NoAnswer as error:
            message = f"{error.message}\nThe undo goes on meanwhile, and is completed in any case."
            raise CliError(message) from None

    def converse(self) -> dict[str, Any]:
        """Show the plan and ask until it is accepted as it is, or declined; return the last answer."""
        from clew_daemon.cli.display.undo import plan_lines

        answer = self.ask(perform=False)
        while not answer["resumed"]:
            print_lines(plan_lines(answer, self.again, theirs=self._theirs))
            if not self._has_something(answer):
                return answer
            if not self._is_accepted(answer):
                raise CliError("nothing was changed")
            shown, answer = answer["plan"], self.ask(perform=True, expected=answer["plan"])
            if answer["done"] or answer["moved"] or answer["plan"] == shown:
                _print_done(answer, self.again, shown=True)
                return answer
            print("\nMeanwhile something has changed, and nothing was restored. Now it would be:\n")
        _print_done(answer, self.again, shown=False)
        return answer

    def _has_something(self, answer: dict[str, Any]) -> bool:
        count = answer["entries_total"] + (answer["theirs_total"] if self._theirs else 0)
        return bool(count) and not answer["moved"]

    def _is_accepted(self, answer: dict[str, Any]) -> bool:
        from clew_daemon.cli.display.undo import theirs_question

        if not _confirmed("Undo this?"):
            return False
        return not (self._theirs and answer["theirs_total"]) or _confirmed(theirs_question(answer))


def _confirmed(question: str) -> bool:
    try:
        return click.confirm(question)
    except click.Abort:  # Ctrl-C or Ctrl-D at the prompt
        print()
        return False


def _print_done(answer: dict[str, Any], again: str, *, shown: bool) -> None:
    from clew_daemon.cli.display.undo import done_lines

    print_lines(done_lines(answer, again, shown=shown))


def _is_done(answer: dict[str, Any], *, performed: bool) -> bool:
    """Return whether what was asked for holds: all that may be restored is restored, or there is nothing to undo."""
    failed = any("stays" not in one for one in answer["failed"])
    if answer["moved"] or failed or answer["changed"]:
        return False
    if not performed or answer["restored"] or answer["folders"]:
        return True
    return not (answer["left_total"] or answer["entries_total"] or answer["gone_total"])
