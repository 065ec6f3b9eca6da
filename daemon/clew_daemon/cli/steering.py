"""A person's word to the daemon: `feedback`, `unblock`, `pause`, `reload`, and the like.

Each command asks the control socket once; the daemon decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import arguments
from clew_daemon.cli.printable import clean, short

if TYPE_CHECKING:
    from clew_daemon.cli.where import Where


@click.command()
@arguments.goal
@click.argument("text", metavar="TEXT", help="What the agent shall know.")
@click.pass_obj
def feedback(where: Where, goal: str, text: str) -> None:
    """Tell the agent something; a blocked goal goes on with it."""
    _ask(where, "feedback", goal, text=text)


@click.command()
@arguments.goal
@click.argument("signature", metavar="SIGNATURE", help="The refused action, or its beginning.")
@click.pass_obj
def unblock(where: Where, goal: str, signature: str) -> None:
    """Lift the block of an action (see `clew status GOAL`)."""
    from clew_daemon.cli.client import call

    name = _resolved(where, goal)
    blocked = call(where.socket, "status", goal=name)["goal"]["blocked_actions"]
    _told(call(where.socket, "unblock", goal=name, signature=_meant(signature, blocked)))


@click.command()
@arguments.goal
@click.pass_obj
def pause(where: Where, goal: str) -> None:
    """Stop work on a goal until `clew resume`."""
    _ask(where, "pause", goal)


@click.command()
@arguments.goal
@click.pass_obj
def resume(where: Where, goal: str) -> None:
    """Go on with a goal that was paused or waits."""
    _ask(where, "resume", goal)


@click.command()
@arguments.goal
@click.pass_obj
def cancel(where: Where, goal: str) -> None:
    """End a goal for good."""
    _ask(where, "cancel", goal)


@click.command()
@arguments.goal
@click.pass_obj
def retry(where: Where, goal: str) -> None:
    """Start again with a goal that failed, was cancelled or is blocked."""
    _ask(where, "retry", goal)


@click.command()
@click.pass_obj
def reload(where: Where) -> None:
    """Read the config again, as SIGHUP does, and show what changed or why it was refused."""
    from clew_daemon.cli.client import call

    changes = call(where.socket, "reload")["changes"]
    if not changes:
        print("nothing changed")
    for change in changes:
        applies = change.get("applies", "now" if change["live"] else "after a restart")
        when = "" if applies == "now" else f"  (applies {applies})"
        old, new = short(repr(change["old"])), short(repr(change["new"]))
        print(f"{clean(change['key'])}: {old} -> {new}{when}")


def _ask(where: Where, method: str, goal: str, **params: str) -> None:
    from clew_daemon.cli.client import call

    _told(call(where.socket, method, goal=_resolved(where, goal), **params))


def _told(answer: dict[str, Any]) -> None:
    print(f"{clean(answer['id'])}: {clean(answer['status'])}")


def _resolved(where: Where, goal: str) -> str:
    """Return the goal's whole id; without a daemon that comes before a wrong name."""
    from clew_daemon.cli.client import call
    from clew_daemon.cli.record import named

    call(where.socket, "ping")
    return named(where, goal)


def _meant(signature: str, blocked: list[str]) -> str:
    """Return the blocked signature that begins so, where it is the only one."""
    beginning = [name for name in blocked if name.startswith(signature)]
    return beginning[0] if len(beginning) == 1 else signature
