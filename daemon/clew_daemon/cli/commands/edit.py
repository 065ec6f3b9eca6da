"""`clew edit`: a person changes a goal's text, checks and limits; the daemon checks and records the new goal file."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import click

from clew_daemon.cli import parameters
from clew_daemon.control.requests import EditRequest
from clew_daemon.reading.client import RequestRefused, send
from clew_daemon.reading.errors import CliError, print_error
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.queries import goal_file
from clew_daemon.reading.sanitize import clean

FILE_BYTES_MAX = 1 << 20
SENT_CHARS_MAX = 1_000_000
"""A request is one line of the control socket, which is bounded."""


@click.command()
@parameters.goal
@click.option(
    "--file",
    "file",
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="The new goal file, or - for stdin, instead of an editor.",
)
@click.pass_obj
def edit(instance: Instance, goal: str, file: str | None) -> None:
    """Change a goal's text, checks or limits in $VISUAL or $EDITOR; it must not be at work.

    What was done stays, and the agent is told what has changed.
    """
    send(instance.socket, EditRequest(goal))  # before anyone has written anything
    if file is not None:
        with click.open_file(file, "rb") as stream:
            print(_sent(instance, goal, stream.read(FILE_BYTES_MAX + 1)))
        return
    folder = Path(tempfile.mkdtemp(prefix="clew-edit-"))
    draft = folder / f"{goal}.md"
    draft.write_text(goal_file(instance, goal), encoding="utf-8")
    try:
        said = _edited(instance, goal, draft)
    except (CliError, KeyboardInterrupt, click.Abort) as error:
        why = f"{error.message}\n" if isinstance(error, CliError) else f"{goal}: "
        raise CliError(f"{why}nothing was changed; your text is kept in {draft}") from None
    shutil.rmtree(folder, ignore_errors=True)
    print(said)


def _edited(instance: Instance, goal: str, draft: Path) -> str:
    """Let a person edit until the goal file has no errors, or they have had enough; return what was changed."""
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or sys.stdin.isatty()):
        raise CliError("no editor is set: set $EDITOR, or name the new goal file with --file")
    before = draft.read_bytes()
    while True:
        try:
            click.edit(filename=str(draft))
        except click.ClickException as error:
            raise CliError(error.message) from None
        if draft.read_bytes() == before:
            return f"{goal}: nothing was changed"
        try:
            return _sent(instance, goal, draft.read_bytes())
        except RequestRefused as error:
            if not parameters.can_ask():
                raise
            print_error(error.message)
            if not click.confirm("Edit it again?", default=True):
                raise CliError("the goal file has errors") from None


def _sent(instance: Instance, goal: str, raw: bytes) -> str:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        why = f"the goal file is not UTF-8 (at byte {error.start}): save it as UTF-8"
        raise CliError(why) from None
    if len(raw) > FILE_BYTES_MAX or len(text) > SENT_CHARS_MAX:
        raise CliError("the goal file is too long to be edited: submit it as another goal")
    answer = send(instance.socket, EditRequest(goal, text))
    return f"{clean(answer['id'])}: {clean(answer['said'])}"
