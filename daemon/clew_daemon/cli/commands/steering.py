"""Requests of a person to the daemon on goals: `feedback`, `pause`, `continue`, `cancel` and their like, and `edit`."""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from clew_daemon.cli import parameters
from clew_daemon.reading.client import call
from clew_daemon.reading.errors import CliError, print_error
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.queries import goal_state, open_ledger
from clew_daemon.reading.sanitize import clean
from clew_shared.exit_codes import ExitCode
from clew_shared.text.words import counted, signature_text

HOW_TO_NAME_GOALS = "which goals? Name one or more, or use --all"
FILE_BYTES_MAX = 1 << 20
SENT_CHARS_MAX = 1_000_000  # a request is one line of the control socket, which is bounded


@parameters.command(
    parameters.goal_as_given,
    click.argument(
        "text", metavar="TEXT...", nargs=-1, required=True, help="Message for the agent."
    ),
    context_settings={"ignore_unknown_options": True},
)
def feedback(instance: Instance, goal: str, text: tuple[str, ...]) -> None:
    """Send the agent a message; this resumes a blocked goal. An ended goal needs `clew continue` as well."""
    print_answer(call(instance.socket, "feedback", goal=goal, text=" ".join(text)))


@parameters.command(
    parameters.goal_as_given,
    click.argument("signature", metavar="ACTION", help="The refused action, or its beginning."),
)
def unblock(instance: Instance, goal: str, signature: str) -> None:
    """Allow a refused action again (see `clew status GOAL`); this resumes a goal that was blocked by it."""
    found = call(instance.socket, "status", goal=goal)["goal"]
    forms = {one: (one, signature_text(one)) for one in found["blocked_actions"]}
    exact = [one for one, form in forms.items() if signature in form]
    begun = [one for one, form in forms.items() if any(f.startswith(signature) for f in form)]
    matching = exact or begun
    meant = matching[0] if len(matching) == 1 else signature
    print_answer(call(instance.socket, "unblock", goal=found["id"], signature=meant))


def _goals_command(
    verb: str, done: str, summary: str, *more: parameters.Parameter
) -> click.Command:
    """Make a command that asks the daemon for the same change of several goals, or of all."""

    @parameters.command(
        parameters.goals_as_given, parameters.all_goals, *more, name=verb, help=summary
    )
    def command(instance: Instance, goals: tuple[str, ...], every: bool, now: bool = False) -> None:
        if every == bool(goals):
            wrong = "name goals, or use --all, not both" if every else HOW_TO_NAME_GOALS
            raise click.UsageError(wrong)
        named = None if every else goals
        more = {"now": True} if now else {}
        results = call(instance.socket, verb, goals=named, all=every, **more)["results"]
        failed = [one["error"] for one in results if "error" in one]
        for one in results:
            if "error" not in one:
                print_answer(one)
        for error in failed:
            print_error(error)
        if every:
            ended = f"{counted(len(results) - len(failed), 'goal')} {done}"
            print(ended if results else f"no goal to {verb}")
        if failed:
            raise click.exceptions.Exit(ExitCode.FAILED)

    return command


def print_answer(answer: Mapping[str, str]) -> None:
    """Print what the daemon has done with a goal."""
    print(f"{clean(answer['id'])}: {clean(answer.get('said') or answer['status'])}")


go_on = _goals_command(
    "continue",
    "continued",
    "Continue goals, whatever stopped them: paused, waiting, blocked, failed or cancelled ones, and completed ones "
    "with feedback. Attempts and budgets start again, and refused actions are allowed again. --all means those that "
    "are paused, waiting, blocked or failed.",
)
RESUMES = "As `continue`, for paused, waiting or blocked goals only."
resume = _goals_command("resume", "resumed", RESUMES)
rm = _goals_command(
    "rm",
    "removed from the lists",
    "Take goals that have ended out of the lists. Their record stays until `[ledger] keep_days`; `clew history ID` "
    "shows it.",
)
cancel = _goals_command("cancel", "cancelled", "Cancel goals; `continue` reopens one.")
retry = _goals_command(
    "retry",
    "queued again",
    "As `continue`, for goals only that failed, were cancelled or are blocked, or completed ones with feedback.",
)
pause = _goals_command(
    "pause",
    "paused",
    "Stop goals until `clew continue`, after the running action.",
    parameters.flag("--now", "Interrupt a running action after `stop_grace_s`."),
)


FILE_HELP = "The new goal file, or - for stdin, instead of an editor."
FILE = parameters.option("--file", "FILE", FILE_HELP, type=click.Path(allow_dash=True))


@parameters.command(parameters.goal, FILE)
def edit(instance: Instance, goal: str, file: str | None) -> None:
    """Change a goal's text, checks or limits in $VISUAL or $EDITOR; it must not be at work.

    What was done stays, and the agent is told what has changed.
    """
    call(instance.socket, "edit", goal=goal)  # before anyone has written anything
    if file is not None:
        with click.open_file(file, "rb") as stream:
            _edited(instance, goal, stream.read(FILE_BYTES_MAX + 1))
        return
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or sys.stdin.isatty()):
        raise CliError("no editor is set: set $EDITOR, or name the new goal file with --file")
    folder = Path(tempfile.mkdtemp(prefix="clew-edit-"))
    draft = folder / f"{goal}.md"
    state = goal_state(instance, goal)
    with open_ledger(instance) as reader:  # as a person changed it last
        raw = reader.output(state.edited_seq or state.accepted_seq) or b""
    draft.write_text(before := raw.decode("utf-8-sig", "replace"), encoding="utf-8")
    try:
        click.edit(filename=str(draft))
        if (raw := draft.read_bytes()) == before.encode():
            print(f"{goal}: nothing was changed")
        else:
            _edited(instance, goal, raw)
    except (CliError, click.ClickException, KeyboardInterrupt, click.Abort) as error:
        why = getattr(error, "message", "") or "interrupted"
        again = f"correct it, then: clew edit {goal} --file {draft}"
        raise CliError(f"{why}\nnothing was changed; your text is in {draft}; {again}") from None
    shutil.rmtree(folder, ignore_errors=True)


def _edited(instance: Instance, goal: str, raw: bytes) -> None:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        why = f"the goal file is not UTF-8 (at byte {error.start}): save it as UTF-8"
        raise CliError(why) from None
    if len(raw) > FILE_BYTES_MAX or len(text) > SENT_CHARS_MAX:
        raise CliError("the goal file is too long to be edited: submit it as another goal")
    print_answer(call(instance.socket, "edit", goal=goal, text=text))
