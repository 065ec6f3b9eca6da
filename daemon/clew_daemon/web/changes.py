"""The changes that a page asks for: each is a request to the daemon, the same that a command sends."""

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clew_daemon.control.requests import ControlRequest, FeedbackRequest, UnblockRequest
from clew_daemon.reading import submission
from clew_daemon.reading.client import CHANGES, command_of, send
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.queries import last_seq

ACCEPTED_WITHIN_S = 5.0
TEXT_CHARS_MAX = 100_000


class GoalBody(BaseModel):
    """A change of a goal, by its id; `confirm` is the id once more, as the person typed it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    goal: str = Field(min_length=1, max_length=200)
    confirm: str = ""
    text: str = Field("", max_length=TEXT_CHARS_MAX)
    signature: str = Field("", max_length=TEXT_CHARS_MAX)


class NewGoalBody(BaseModel):
    """A new goal: its text, and what `clew submit` takes as options."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: str = Field(min_length=1, max_length=1 << 20)
    name: str = Field("", max_length=200)
    agent: str = Field("", max_length=200)
    workspace: str = Field("", max_length=4_000)
    check: str = Field("", max_length=4_000)


def perform(instance: Instance, what: str, raw: bytes) -> dict[str, str]:
    """Carry out a change; return what was done and the command that does the same. CliError says why it was not."""
    try:
        if what == "submit":
            return _submit(instance, NewGoalBody.model_validate_json(raw))
        wanted = _wanted(what, GoalBody.model_validate_json(raw))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the request"
        raise CliError(f"{where}: {first['msg']}") from None
    answer = send(instance.socket, wanted)
    said = answer.get("said") or answer["status"]
    return {"goal": answer["id"], "said": said, "command": command_of(wanted)}


def _wanted(what: str, body: GoalBody) -> ControlRequest:
    match what:
        case "cancel" if body.confirm.strip() != body.goal:
            raise CliError(f"to cancel this goal, type its id: {body.goal}")
        case "pause" | "continue" | "cancel":
            return CHANGES[what](body.goal)
        case "feedback" if body.text:
            return FeedbackRequest(body.goal, body.text)
        case "unblock" if body.signature:
            return UnblockRequest(body.goal, body.signature)
    raise CliError(f"there is no change {what!r}, or something is missing in it")


def _submit(instance: Instance, body: NewGoalBody) -> dict[str, str]:
    """Put a goal into the inbox, checked first, and wait a moment for the daemon's decision."""
    checks = (body.check,) if body.check else ()
    named = (body.name or None, body.agent or None, body.workspace or None)
    source = submission.GoalSource("the goal", "goal.md", body.text.encode())
    checked = submission.checked_goal(instance, source, submission.SubmitOptions(*named, checks))
    before = last_seq(instance) or 0
    [path] = submission.drop_all(instance.places.inbox, [(source.name, checked.raw)])
    dropped = submission.Submission(path)
    submission.await_decisions(instance, [dropped], before, ACCEPTED_WITHIN_S)
    if dropped.error:
        raise CliError(dropped.error)
    said = "accepted" if dropped.goal else "put into the inbox; not accepted yet"
    return {"goal": dropped.goal or "", "said": said, "command": "clew submit FILE"}
