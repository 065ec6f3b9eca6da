"""Requests of a person to the daemon on goals: `feedback`, `unblock`, `pause`, `continue`, `cancel` and their like.

The daemon finds the goals that are meant, decides and records; see `clew_daemon.control`.
"""

from __future__ import annotations

from typing import Any

import click

from clew_daemon.cli import parameters
from clew_daemon.control.requests import (
    CancelRequest,
    ContinueRequest,
    FeedbackRequest,
    GoalChangeRequest,
    PauseRequest,
    RemoveRequest,
    ResumeRequest,
    RetryRequest,
    StatusRequest,
    UnblockRequest,
)
from clew_daemon.reading.client import send
from clew_daemon.reading.errors import print_error
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.sanitize import clean
from clew_shared.exit_codes import ExitCode

HOW_TO_NAME_GOALS = "which goals? Name one or more, or use --all"
DONE = {
    "pause": "paused",
    "continue": "continued",
    "resume": "resumed",
    "cancel": "cancelled",
    "rm": "removed from the lists",
    "retry": "queued again",
}


@click.command(context_settings={"ignore_unknown_options": True})
@parameters.goal
@click.argument("text", metavar="TEXT...", nargs=-1, required=True, help="Message for the agent.")
@click.pass_obj
def feedback(instance: Instance, goal: str, text: tuple[str, ...]) -> None:
    """Send the agent a message; this resumes a blocked goal. An ended goal needs `clew continue` as well."""
    _print_answer(send(instance.socket, FeedbackRequest(goal, " ".join(text))))


@click.command()
@parameters.goal
@click.argument("signature", metavar="SIGNATURE", help="The blocked action, or its beginning.")
@click.pass_obj
def unblock(instance: Instance, goal: str, signature: str) -> None:
    """Allow a refused action again (see `clew status GOAL`); this resumes a goal that was blocked by it."""
    found = send(instance.socket, StatusRequest(goal))["goal"]
    matching = [name for name in found["blocked_actions"] if name.startswith(signature)]
    meant = matching[0] if len(matching) == 1 else signature
    _print_answer(send(instance.socket, UnblockRequest(found["id"], meant)))


@click.command(help="Stop goals until `clew continue`, after the running action.")
@parameters.goals
@parameters.all_goals
@click.option("--now", is_flag=True, help="Interrupt a running action after `stop_grace_s`.")
@click.pass_obj
def pause(instance: Instance, goals: tuple[str, ...], every: bool, now: bool) -> None:
    _change_goals(instance, PauseRequest, goals, every=every, **({"now": True} if now else {}))


def _goals_command(kind: type[GoalChangeRequest], summary: str) -> click.Command:
    """Make a command that asks the daemon for the same change of several goals, or of all."""

    @click.command(kind.method, help=summary)
    @parameters.goals
    @parameters.all_goals
    @click.pass_obj
    def command(instance: Instance, goals: tuple[str, ...], every: bool) -> None:
        _change_goals(instance, kind, goals, every=every)

    return command


go_on = _goals_command(
    ContinueRequest,
    "Continue goals, whatever stopped them: paused, waiting, blocked, failed or cancelled ones, and completed ones "
    "with feedback. Attempts and budgets start again, and refused actions are allowed again. --all means those that "
    "are paused, waiting, blocked or failed.",
)
resume = _goals_command(ResumeRequest, "As `continue`, for paused, waiting or blocked goals only.")
rm = _goals_command(
    RemoveRequest,
    "Take goals that have ended out of the lists. Their record stays until `[ledger] keep_days`; `clew history ID` "
    "shows it.",
)
cancel = _goals_command(CancelRequest, "Cancel goals (`continue` reopens them).")
retry = _goals_command(
    RetryRequest,
    "As `continue`, for goals only that failed, were cancelled or are blocked, or completed ones with feedback.",
)


def _change_goals(
    instance: Instance,
    kind: type[GoalChangeRequest],
    goals: tuple[str, ...],
    *,
    every: bool,
    **options: Any,
) -> None:
    if every == bool(goals):
        raise click.UsageError("name goals, or use --all, not both" if every else HOW_TO_NAME_GOALS)
    which: dict[str, Any] = {"all": True} if every else {"goals": goals}
    results = send(instance.socket, kind(**which, **options))["results"]
    failed = [result for result in results if "error" in result]
    if every and not results:
        print(f"no goal to {kind.method}")
    for result in results:
        if "error" not in result:
            _print_answer(result)
    for result in failed:
        print_error(result["error"])
    if every and results:
        of = f" of {len(results)}" if failed else ""
        goals_noun = "goal" if len(results) == 1 else "goals"
        print(f"{len(results) - len(failed)}{of} {goals_noun} {DONE[kind.method]}")
    if failed:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _print_answer(answer: dict[str, Any]) -> None:
    print(f"{clean(answer['id'])}: {clean(answer.get('said') or answer['status'])}")
