"""A person's word to the daemon: `feedback`, `unblock`, `pause`, `reload`, and the like.

Each command asks the control socket once; the daemon decides.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from clew_daemon.cli.arguments import Goal, here
from clew_daemon.cli.printable import clean, short


def register(app: typer.Typer) -> None:
    """Add the commands of this family."""
    for command in (feedback, unblock, pause, resume, cancel, retry, reload):
        app.command()(command)


def feedback(
    context: typer.Context,
    goal: Goal,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the agent shall know.")],
) -> None:
    """Tell the agent something; a blocked goal goes on with it."""
    _ask(context, "feedback", goal, text=text)


def unblock(
    context: typer.Context,
    goal: Goal,
    signature: Annotated[
        str, typer.Argument(metavar="SIGNATURE", help="The refused action, or its beginning.")
    ],
) -> None:
    """Lift the block of an action (see `clew status GOAL`)."""
    where = here(context)
    from clew_daemon.cli.client import call

    name = _resolved(context, goal)
    blocked = call(where.socket, "status", goal=name)["goal"]["blocked_actions"]
    _told(call(where.socket, "unblock", goal=name, signature=_meant(signature, blocked)))


def pause(context: typer.Context, goal: Goal) -> None:
    """Stop work on a goal until `clew resume`."""
    _ask(context, "pause", goal)


def resume(context: typer.Context, goal: Goal) -> None:
    """Go on with a goal that was paused or waits."""
    _ask(context, "resume", goal)


def cancel(context: typer.Context, goal: Goal) -> None:
    """End a goal for good."""
    _ask(context, "cancel", goal)


def retry(context: typer.Context, goal: Goal) -> None:
    """Start again with a goal that failed, was cancelled or is blocked."""
    _ask(context, "retry", goal)


def reload(context: typer.Context) -> None:
    """Read the config again, as SIGHUP does, and show what changed or why it was refused."""
    from clew_daemon.cli.client import call

    changes = call(here(context).socket, "reload")["changes"]
    if not changes:
        print("nothing changed")
    for change in changes:
        when = "" if change["live"] else "  (after a restart)"
        old, new = short(repr(change["old"])), short(repr(change["new"]))
        print(f"{clean(change['key'])}: {old} -> {new}{when}")


def _ask(context: typer.Context, method: str, goal: str, **params: str) -> None:
    from clew_daemon.cli.client import call

    _told(call(here(context).socket, method, goal=_resolved(context, goal), **params))


def _told(answer: dict[str, Any]) -> None:
    print(f"{clean(answer['id'])}: {clean(answer['status'])}")


def _resolved(context: typer.Context, goal: str) -> str:
    """Return the goal's whole id; without a daemon that comes before a wrong name."""
    from clew_daemon.cli.client import call
    from clew_daemon.cli.record import named

    where = here(context)
    call(where.socket, "ping")
    return named(where, goal)


def _meant(signature: str, blocked: list[str]) -> str:
    """Return the blocked signature that begins so, where it is the only one."""
    beginning = [name for name in blocked if name.startswith(signature)]
    return beginning[0] if len(beginning) == 1 else signature
