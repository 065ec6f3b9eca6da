"""The requests of the control socket, plain data: the command line builds them, the daemon checks them (`lookup`)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, dataclass_transform

GOALS_MAX = 1_000  # How many goals one request may name
IMPORTED_AT_ONCE_MAX = 100  # How many strategies one request may import


@dataclass_transform(frozen_default=True)
class ControlRequest:
    """A request, as a frozen dataclass; `method` is its name on the socket, a field where a class has several."""

    method: str

    def __init_subclass__(cls, method: str = "") -> None:
        if method:
            cls.method = method
        dataclass(frozen=True)(cls)

    def params(self) -> dict[str, Any]:
        """Return the parameters as they are sent: without those that are None."""
        names = [field.name for field in fields(self) if field.name != "method"]  # type: ignore[arg-type]
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class DaemonRequest(ControlRequest):
    """A request to the daemon without parameters.

    `ping` asks for its view (process, version, whether it is ready), `health` for the state of the ledger and a
    histogram of how long commits took, `settings` for those in force, `executor_env` for the environment of executors;
    `reload` has it read the config again.
    """

    method: str


# ---- goals: `goal` is a name, an id, or the beginning of either


class StatusRequest(ControlRequest, method="status"):
    """Ask for one goal's tree, or for all goals that go on and the last `limit` that ended."""

    goal: str | None = None
    limit: int | None = None


class FollowRequest(ControlRequest, method="follow"):
    """Ask for the durable events of one goal, or of all, from now on, or after the cursor `after` (docs/stream.md)."""

    goal: str | None = None
    after: str | None = None


class FeedbackRequest(ControlRequest, method="feedback"):
    """Send the agent a message; a blocked goal continues with it."""

    goal: str
    text: str


class UnblockRequest(ControlRequest, method="unblock"):
    """Allow a blocked action again."""

    goal: str
    signature: str


class AcceptRequest(ControlRequest, method="accept"):
    """Accept a goal's work as it is, which the label of its proof refuses, and end the goal; `why` is on record."""

    goal: str
    why: str = ""


class GoalChangeRequest(ControlRequest):
    """Change one `goal`, several `goals`, or `all` to which the change applies.

    The methods are those of docs/cli.md: pause (after the running action, or `now`), resume, continue, cancel, retry,
    and rm, which takes them out of the lists.
    """

    method: str
    goal: str | None = None
    goals: tuple[str, ...] | None = None
    all: bool = False
    now: bool | None = None


class EditRequest(ControlRequest, method="edit"):
    """Change what a goal asks for to what a goal file says, all of it; without `text`, ask whether that may be now."""

    goal: str
    text: str | None = None


class UndoRequest(ControlRequest, method="undo"):
    """Show what undoing a goal, or one `subtask` (its task's and its own index), would do; or `perform` it.

    `expected` is the `plan` of an earlier answer: if there is another one by now, nothing is restored.
    """

    goal: str
    subtask: tuple[int, int] | None = None
    perform: bool = False
    expected: str | None = None


class MoveStrategyRequest(ControlRequest):
    """Move a strategy to the archive (`playbook_remove`), or take it out of there (`playbook_restore`)."""

    method: str
    id: str


class PruneRequest(ControlRequest, method="playbook_prune"):
    """Archive the strategies that score below a threshold (None: that of the config)."""

    below: float | None = None


class ImportRequest(ControlRequest, method="playbook_import"):
    """Import strategies, each a JSON object as in an export."""

    bullets: tuple[Mapping[str, object], ...]
