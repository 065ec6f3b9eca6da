"""`clew submit`: it checks the goals first, so that all their errors are shown at once; the daemon still decides."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.cli.parameters import flag, option
from clew_daemon.reading.client import ask
from clew_daemon.reading.errors import TO_START, CliError, print_error, print_note
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.output import print_json
from clew_daemon.reading.sanitize import clean
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from clew_daemon.reading.submission import CheckedGoal, Submission

    Submitted = Sequence[tuple[Submission, CheckedGoal]]

HERE = "the git repository here; --new makes a fresh folder"
ACCEPTED_WITHIN_S = 5.0
WAITED_FOR_S = 60.0  # how long `--wait` waits until a goal is accepted


GOALS = click.argument(
    "goals",
    metavar="FILE|-|TEXT...",
    nargs=-1,
    required=True,
    type=click.Path(allow_dash=True, readable=False),  # reading it gives the better error
    help="Goal files, - for stdin, or the text of a goal in quotes.",
)


@parameters.command(
    GOALS,
    flag("--wait", "Show progress; exit 0 if all goals were completed."),
    option("--name", "NAME", "The goal's name, for `depends_on` and commands."),
    option("--agent", "AGENT", "The agent that works on the goals."),
    option("--workspace", "DIR", "Where the agent works."),
    flag("--new", "Work in a fresh folder, also inside a git repository."),
    option("--check", "checks", "CMD", "A check; may be repeated.", multiple=True),
    parameters.as_json,
)
def submit(
    instance: Instance, goals: tuple[str, ...], wait: bool, new: bool, as_json: bool, **given: Any
) -> None:
    """Add goals to the inbox: files, or the text of a goal.

    An argument with white space that names no file and does not end in .md or .txt is text.
    A text that is submitted inside a git repository works in that repository.
    Options take precedence over the front matter of each file, and checks are added to its own.
    """
    from clew_daemon.reading import submission

    if as_json and wait:
        raise click.UsageError("--json cannot be used with --wait")
    given["workspace"] = _absolute(given["workspace"])
    checks = given.pop("checks")
    values = {key: value for key, value in given.items() if value is not None}
    if new and "workspace" in values:
        raise click.UsageError("--new cannot be used with --workspace")
    if "name" in values and len(goals) > 1:
        raise click.UsageError("--name can only be used with one goal")
    options = submission.SubmitOptions(values, checks)
    checked = submission.check_goals(instance, goals, options, new=new)
    is_running = ask(instance.socket, "ping") is not None
    if wait and not is_running:
        queued = "nothing was submitted (without --wait the goals would wait in the inbox)"
        raise CliError(f"{instance.socket.silence}; {queued}", ExitCode.NO_DAEMON)
    dropped = submission.drop_all(instance, ((one.source.name, one.raw) for one in checked))
    code: int | None = None
    try:
        if is_running:
            within_s = WAITED_FOR_S if wait else ACCEPTED_WITHIN_S
            submission.await_decisions(instance, dropped, within_s)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except CliError:
        is_running, code = False, ExitCode.NO_DAEMON if wait else None
    _print(instance, list(zip(dropped, checked, strict=True)), is_running, as_json)
    accepted = [one.goal for one in dropped if one.goal]
    if code is None:
        is_good = not wait and not any(one.error for one in dropped)
        if wait and accepted:
            from clew_daemon.cli.commands.watch import watch

            is_good = watch(instance, accepted) and len(accepted) == len(dropped)
        code = 0 if is_good else ExitCode.FAILED
    raise click.exceptions.Exit(code)


def _absolute(workspace: str | None) -> str | None:
    if not workspace or workspace == "~" or workspace.startswith("~/"):
        return workspace
    return os.path.abspath(workspace)  # noqa: PTH100 - links stay


def _print(instance: Instance, submitted: Submitted, is_running: bool, as_json: bool) -> None:
    """Print what became of the goals; on stdout only their ids, for scripts, or one JSON document."""
    views = []
    for one, each in submitted:
        place = each.workspace(instance.places.workspaces, one.goal)
        view = {"id": one.goal, "file": str(one.path), "error": one.error or None}
        views.append({**view, "workspace": place and str(place), "new_workspace": each.is_new})
        if not (as_json or one.error):
            print(one.goal or f"added to the inbox as {clean(str(one.path))}", flush=True)
            where = clean(str(place or "a folder of its own"))
            how = HERE if each.is_here else "it exists"
            if each.is_new:
                how = "new: it does not exist; it will be created" if each.goal.folder else "new"
            print_note(f"  workspace: {where} ({how})")
    if as_json:
        print_json({"goals": views})
        return
    for one, _ in submitted:
        if one.error:
            print_error(one.error)
    if all(one.is_decided for one, _ in submitted):
        return
    if is_running:
        print("not accepted yet: see `clew status` and `clew logs`")
    elif found := instance.holder:
        print(clean(f"{found.running} but does not answer now: it starts later"))
    else:
        print(f"no daemon is running: it starts once one runs: {TO_START}")
