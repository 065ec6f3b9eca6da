"""What a person asks of the daemon: `feedback`, `unblock`, `pause`, `reload`, and the like.

Each command asks the control socket; the daemon decides, and finds the goals that are meant.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from clew_daemon.cli import arguments
from clew_daemon.cli.errors import tell
from clew_daemon.cli.printable import clean, short
from clew_shared.exit_codes import ExitCode

if TYPE_CHECKING:
    from clew_daemon.cli.where import Where


@click.command(context_settings={"ignore_unknown_options": True})
@arguments.goal
@click.argument("text", metavar="TEXT...", nargs=-1, required=True, help="Message for the agent.")
@click.pass_obj
def feedback(where: Where, goal: str, text: tuple[str, ...]) -> None:
    """Send the agent a message; this resumes a blocked goal. An ended goal needs `clew retry` as well."""
    from clew_daemon.cli.client import call

    _told(call(where.socket, "feedback", goal=goal, text=" ".join(text)))


@click.command()
@arguments.goal
@click.argument("signature", metavar="SIGNATURE", help="The blocked action, or its beginning.")
@click.pass_obj
def unblock(where: Where, goal: str, signature: str) -> None:
    """Allow a blocked action again (see `clew status GOAL`)."""
    from clew_daemon.cli.client import call

    found = call(where.socket, "status", goal=goal)["goal"]
    meant = _meant(signature, found["blocked_actions"])
    _told(call(where.socket, "unblock", goal=found["id"], signature=meant))


@click.command()
@arguments.goals
@arguments.all_goals
@click.pass_obj
def pause(where: Where, goals: tuple[str, ...], every: bool) -> None:
    """Stop work on goals until `clew resume`."""
    _ask(where, "pause", goals, every=every)


@click.command()
@arguments.goals
@arguments.all_goals
@click.pass_obj
def resume(where: Where, goals: tuple[str, ...], every: bool) -> None:
    """Resume paused, waiting or blocked goals."""
    _ask(where, "resume", goals, every=every)


@click.command()
@arguments.goals
@arguments.all_goals
@click.pass_obj
def cancel(where: Where, goals: tuple[str, ...], every: bool) -> None:
    """Cancel goals (`retry` reopens them)."""
    _ask(where, "cancel", goals, every=every)


@click.command()
@arguments.goals
@arguments.all_goals
@click.pass_obj
def retry(where: Where, goals: tuple[str, ...], every: bool) -> None:
    """Continue goals that failed, were cancelled or are blocked, or completed ones with feedback."""
    _ask(where, "retry", goals, every=every)


@click.command()
@click.pass_obj
def reload(where: Where) -> None:
    """Read the config again, as SIGHUP does; show what changed, or why it was rejected."""
    from clew_daemon.cli.client import call

    changes = call(where.socket, "reload")["changes"]
    if not changes:
        print("nothing changed")
    for change in changes:
        applies = change.get("applies", "now" if change["live"] else "after a restart")
        when = "" if applies == "now" else f"  (applies {applies})"
        old, new = _value(change["old"]), _value(change["new"])
        print(f"{clean(change['key'])}: {old} -> {new}{when}")


def _value(value: object) -> str:
    return "not set" if value is None else short(json.dumps(value, ensure_ascii=False))


def _ask(where: Where, verb: str, goals: tuple[str, ...], *, every: bool) -> None:
    """Ask the same of several goals, tell what became of each, and exit 1 where one could not be done."""
    from clew_daemon.cli.client import call

    if every == bool(goals):
        raise click.UsageError(
            "name goals, or use --all, not both" if every else f"which goals? {_HOW}"
        )
    asked: dict[str, Any] = {"all": True} if every else {"goals": list(goals)}
    results = call(where.socket, verb, **asked)["results"]
    if every and not results:
        print(f"no goal to {verb}")
    for result in results:
        if "error" not in result:
            _told(result)
    failed = [result for result in results if "error" in result]
    for result in failed:
        tell(result["error"])
    if every and results:
        done = len(results) - len(failed)
        of = f" of {len(results)}" if failed else ""
        print(f"{done}{of} goal{'' if len(results) == 1 else 's'} {_DONE[verb]}")
    if failed:
        raise click.exceptions.Exit(ExitCode.FAILED)


_HOW = "Name one or more, or use --all"
_DONE = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "retry": "queued again"}


def _told(answer: dict[str, Any]) -> None:
    print(f"{clean(answer['id'])}: {clean(answer.get('said') or answer['status'])}")


def _meant(signature: str, blocked: list[str]) -> str:
    """Return the blocked signature that begins so, where it is the only one."""
    beginning = [name for name in blocked if name.startswith(signature)]
    return beginning[0] if len(beginning) == 1 else signature
