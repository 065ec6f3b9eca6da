"""The changes that a page asks for: each is a request to the daemon, the same that a command sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clew_daemon.reading import goal_commands
from clew_daemon.reading.client import send
from clew_daemon.reading.errors import CliError

if TYPE_CHECKING:
    from clew_daemon.reading.goal_commands import GoalCommand
    from clew_daemon.reading.instance import Instance

ACCEPTED_WITHIN_S = 5.0
TEXT_CHARS_MAX = 100_000
SIMPLE = ("pause", "continue")


class _Body(BaseModel):
    """What every change has in common: no unknown keys, no silent conversion."""

    model_config = ConfigDict(extra="forbid", strict=True)


class GoalBody(_Body):
    """Which goal is meant, by its id."""

    goal: str = Field(min_length=1, max_length=200)


class ConfirmedBody(GoalBody):
    """A goal, and its id once more, as the person typed it."""

    confirm: str = ""


class MessageBody(GoalBody):
    """A message for a goal's agent."""

    text: str = Field(min_length=1, max_length=TEXT_CHARS_MAX)


class SignatureBody(GoalBody):
    """A blocked action of a goal."""

    signature: str = Field(min_length=1, max_length=TEXT_CHARS_MAX)


class NewGoalBody(_Body):
    """A new goal: its text, and what `clew submit` takes as options."""

    text: str = Field(min_length=1, max_length=1 << 20)
    name: str = Field("", max_length=200)
    agent: str = Field("", max_length=200)
    workspace: str = Field("", max_length=4_000)
    check: str = Field("", max_length=4_000)


def perform(instance: Instance, what: str, raw: bytes) -> dict[str, Any]:
    """Carry out a change; return what was done and the command that does the same. CliError says why it was not."""
    try:
        if what == "submit":
            return _submit(instance, NewGoalBody.model_validate_json(raw))
        wanted = _wanted(what, raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the request"
        raise CliError(f"{where}: {first['msg']}") from None
    answer = send(instance.socket, wanted.request)
    return {
        "goal": answer["id"],
        "said": answer.get("said") or answer["status"],
        "command": wanted.command,
    }


def _wanted(what: str, raw: bytes) -> GoalCommand:
    if what in SIMPLE:
        return goal_commands.change(what, GoalBody.model_validate_json(raw).goal)
    if what == "cancel":
        return _cancel(ConfirmedBody.model_validate_json(raw))
    if what == "feedback":
        message = MessageBody.model_validate_json(raw)
        return goal_commands.feedback(message.goal, message.text)
    if what == "unblock":
        blocked = SignatureBody.model_validate_json(raw)
        return goal_commands.unblock(blocked.goal, blocked.signature)
    raise CliError(f"there is no change {what!r}")


def _cancel(body: ConfirmedBody) -> GoalCommand:
    if body.confirm.strip() != body.goal:
        raise CliError(f"to cancel this goal, type its id: {body.goal}")
    return goal_commands.change("cancel", body.goal)


def _submit(instance: Instance, body: NewGoalBody) -> dict[str, Any]:
    """Put a goal into the inbox, checked first, and wait a moment for the daemon's decision."""
    from clew_daemon.cli.commands.submit import inbox
    from clew_daemon.cli.commands.submit.goals import GoalSource, SubmitOptions, checked_goal

    options = SubmitOptions(
        body.name or None,
        body.agent or None,
        body.workspace or None,
        (body.check,) if body.check else (),
    )
    source = GoalSource("the goal", "goal.md", body.text.encode())
    checked = checked_goal(instance, source, options)
    known = inbox.goal_ids(instance)
    [path] = inbox.drop_all(instance.places.inbox, [(source.name, checked.raw)])
    submission = inbox.Submission(path)
    inbox.await_decisions(instance, [submission], known, ACCEPTED_WITHIN_S)
    if submission.error:
        raise CliError(submission.error)
    said = "accepted" if submission.goal else "put into the inbox; not accepted yet"
    return {"goal": submission.goal, "said": said, "command": "clew submit FILE"}
