"""`clew submit`: the command, and what it prints.

It reads and checks the goals first, so that all their errors are shown at once; the daemon still decides.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import parameters
from clew_daemon.control.requests import PingRequest
from clew_daemon.reading.client import ask
from clew_daemon.reading.errors import CliError, print_error, print_note
from clew_daemon.reading.output import print_json
from clew_daemon.reading.sanitize import clean
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew_daemon.reading.instance import Instance
    from clew_daemon.reading.submission import CheckedGoal, Submission

ACCEPTED_WITHIN_S = 5.0
WAITED_FOR_S = 60.0
"""How long `--wait` waits until a goal is accepted."""


@click.command()
@click.argument(
    "goals",
    metavar="FILE|-|TEXT...",
    nargs=-1,
    required=True,
    type=click.Path(allow_dash=True, readable=False),  # reading it gives the better error
    help="Goal files, - for stdin, or the text of a goal in quotes.",
)
@click.option("--wait", is_flag=True, help="Show progress; exit 0 if all goals were completed.")
@click.option("--name", metavar="NAME", help="The goal's name, for `depends_on` and commands.")
@click.option("--agent", metavar="AGENT", help="The agent that works on the goals.")
@click.option("--workspace", metavar="DIR", help="Where the agent works.")
@click.option("--new", is_flag=True, help="Work in a fresh folder, also inside a git repository.")
@click.option("--check", "checks", metavar="CMD", multiple=True, help="A check; may be repeated.")
@parameters.as_json
@click.pass_obj
def submit(
    instance: Instance, /, goals: tuple[str, ...], wait: bool, as_json: bool, **given: Any
) -> None:
    """Add goals to the inbox: files, or the text of a goal.

    An argument with white space that names no file and does not end in .md or .txt is text.
    A text that is submitted inside a git repository works in that repository.
    Options take precedence over the front matter of each file, and checks are added to its own.
    """
    from clew_daemon.reading.queries import last_seq
    from clew_daemon.reading.submission import (
        Submission,
        SubmitOptions,
        await_decisions,
        check_goals,
        drop_all,
    )

    name, new, workspace = given["name"], given["new"], _absolute(given["workspace"])
    if as_json and wait:
        raise click.UsageError("--json cannot be used with --wait")
    if new and workspace is not None:
        raise click.UsageError("--new cannot be used with --workspace")
    if name is not None and len(goals) > 1:
        raise click.UsageError("--name can only be used with one goal")
    options = SubmitOptions(name, given["agent"], workspace, given["checks"])
    checked = check_goals(instance, goals, options, new=new)
    is_running = ask(instance.socket, PingRequest()) is not None
    if wait and not is_running:
        queued = "nothing was submitted (without --wait the goals would wait in the inbox)"
        raise CliError(f"{instance.socket.silence}; {queued}", ExitCode.NO_DAEMON)
    before = last_seq(instance) or 0
    paths = drop_all(instance.places.inbox, [(each.source.name, each.raw) for each in checked])
    submissions = [Submission(path) for path in paths]
    within_s = WAITED_FOR_S if wait else ACCEPTED_WITHIN_S
    code = 0
    try:
        if is_running:
            await_decisions(instance, submissions, before, within_s)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except CliError:
        code = ExitCode.NO_DAEMON
    if as_json:
        _print_json(instance, submissions, checked)
    else:
        is_running = is_running and code != ExitCode.NO_DAEMON
        _print_results(instance, submissions, checked, is_running=is_running)
    if not (code == ExitCode.INTERRUPTED or (wait and code)):
        code = 0 if _succeeded(instance, submissions, wait=wait) else ExitCode.FAILED
    raise click.exceptions.Exit(code)


def _absolute(workspace: str | None) -> str | None:
    """Make the folder absolute, below the working directory; the daemon expands `~`."""
    if not workspace or workspace == "~" or workspace.startswith("~/"):
        return workspace
    return os.path.abspath(workspace)  # noqa: PTH100 - links stay


def _succeeded(instance: Instance, submissions: Sequence[Submission], *, wait: bool) -> bool:
    """Return whether none was rejected; with `wait` watch the goals, and return whether all were completed."""
    goals = [one.goal for one in submissions if one.goal]
    if not wait or not goals:
        return not wait and not any(one.error for one in submissions)
    from clew_daemon.cli.commands.watch import watch

    return watch(instance, goals) and len(goals) == len(submissions)


def _print_results(
    instance: Instance,
    submissions: Sequence[Submission],
    checked: Sequence[CheckedGoal],
    *,
    is_running: bool,
) -> None:
    for one, each in zip(submissions, checked, strict=True):
        if not one.error:
            known = f"added to the inbox as {clean(str(one.path))}"
            print(one.goal or known, flush=True)  # the id alone, for scripts
            _print_workspace(instance, each, one.goal)
    for one in submissions:
        if one.error:
            print_error(one.error)
    if all(one.is_decided for one in submissions):
        return
    if is_running:
        print("not accepted yet: see `clew status` and `clew logs`")
    elif found := instance.holder:
        print(clean(f"{found.running} but does not answer now: it starts later"))
    else:
        print(f"no daemon is running: it starts once one runs: {instance.socket.to_start}")


def _print_workspace(instance: Instance, checked: CheckedGoal, goal: str | None) -> None:
    """Print on stderr where a goal works, and whether that is new: stdout has its id."""
    workspace = checked.workspace(instance.places.workspaces, goal)
    shown = clean(str(workspace or "a folder of its own"))
    if checked.goal.folder is None:
        how = "new"
    elif checked.is_new:
        how = "new: it does not exist; it will be created"
    else:
        how = (
            "the git repository here; --new makes a fresh folder"
            if checked.is_here
            else "it exists"
        )
    print_note(f"  workspace: {shown} ({how})")


def _print_json(
    instance: Instance, submissions: Sequence[Submission], checked: Sequence[CheckedGoal]
) -> None:
    folder = instance.places.workspaces
    goals = [
        {
            "id": one.goal,
            "file": str(one.path),
            "error": one.error or None,
            "workspace": (at := each.workspace(folder, one.goal)) and str(at),
            "new_workspace": each.is_new,
        }
        for one, each in zip(submissions, checked, strict=True)
    ]
    print_json({"goals": goals})
