"""Requests of a person to the daemon on goals: `feedback`, `unblock`, `pause`, `continue`, `cancel` and their like.

The daemon finds the goals that are meant, decides and records; see `clew_daemon.control`.
"""

from collections.abc import Mapping

import click

from clew_daemon.cli import parameters
from clew_daemon.control import requests
from clew_daemon.control.requests import GoalChangeRequest, StatusRequest
from clew_daemon.reading.client import send
from clew_daemon.reading.errors import print_error
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.sanitize import clean, counted
from clew_shared.exit_codes import ExitCode

HOW_TO_NAME_GOALS = "which goals? Name one or more, or use --all"


@click.command(context_settings={"ignore_unknown_options": True})
@parameters.goal_as_given
@click.argument("text", metavar="TEXT...", nargs=-1, required=True, help="Message for the agent.")
@click.pass_obj
def feedback(instance: Instance, goal: str, text: tuple[str, ...]) -> None:
    """Send the agent a message; this resumes a blocked goal. An ended goal needs `clew continue` as well."""
    print_answer(send(instance.socket, requests.FeedbackRequest(goal, " ".join(text))))


@click.command()
@parameters.goal_as_given
@click.argument("signature", metavar="SIGNATURE", help="The blocked action, or its beginning.")
@click.pass_obj
def unblock(instance: Instance, goal: str, signature: str) -> None:
    """Allow a refused action again (see `clew status GOAL`); this resumes a goal that was blocked by it."""
    found = send(instance.socket, StatusRequest(goal))["goal"]
    matching = [name for name in found["blocked_actions"] if name.startswith(signature)]
    meant = matching[0] if len(matching) == 1 else signature
    print_answer(send(instance.socket, requests.UnblockRequest(found["id"], meant)))


def _goals_command(kind: type[GoalChangeRequest], done: str, summary: str) -> click.Command:
    """Make a command that asks the daemon for the same change of several goals, or of all."""

    @click.command(kind.method, help=summary)
    @parameters.goals_as_given
    @parameters.all_goals
    @click.pass_obj
    def command(instance: Instance, goals: tuple[str, ...], every: bool, now: bool = False) -> None:
        if every == bool(goals):
            wrong = "name goals, or use --all, not both" if every else HOW_TO_NAME_GOALS
            raise click.UsageError(wrong)
        request = kind(goals=None if every else goals, all=every)
        if now:
            request = requests.PauseRequest(goals=request.goals, all=every, now=True)
        results = send(instance.socket, request)["results"]
        failed = [one["error"] for one in results if "error" in one]
        for one in results:
            if "error" not in one:
                print_answer(one)
        for error in failed:
            print_error(error)
        if every:
            of = f" of {len(results)}" if failed else ""
            goals_noun = counted(len(results), "goal").split()[1]
            ended = f"{len(results) - len(failed)}{of} {goals_noun} {done}"
            print(ended if results else f"no goal to {kind.method}")
        if failed:
            raise click.exceptions.Exit(ExitCode.FAILED)

    return command


def print_answer(answer: Mapping[str, str]) -> None:
    """Print what the daemon has done with a goal."""
    print(f"{clean(answer['id'])}: {clean(answer.get('said') or answer['status'])}")


go_on = _goals_command(
    requests.ContinueRequest,
    "continued",
    "Continue goals, whatever stopped them: paused, waiting, blocked, failed or cancelled ones, and completed ones "
    "with feedback. Attempts and budgets start again, and refused actions are allowed again. --all means those that "
    "are paused, waiting, blocked or failed.",
)
resume = _goals_command(
    requests.ResumeRequest, "resumed", "As `continue`, for paused, waiting or blocked goals only."
)
rm = _goals_command(
    requests.RemoveRequest,
    "removed from the lists",
    "Take goals that have ended out of the lists. Their record stays until `[ledger] keep_days`; `clew history ID` "
    "shows it.",
)
cancel = _goals_command(
    requests.CancelRequest, "cancelled", "Cancel goals; `continue` reopens one."
)
retry = _goals_command(
    requests.RetryRequest,
    "queued again",
    "As `continue`, for goals only that failed, were cancelled or are blocked, or completed ones with feedback.",
)
pause = click.option(
    "--now", is_flag=True, help="Interrupt a running action after `stop_grace_s`."
)(
    _goals_command(
        requests.PauseRequest,
        "paused",
        "Stop goals until `clew continue`, after the running action.",
    )
)
