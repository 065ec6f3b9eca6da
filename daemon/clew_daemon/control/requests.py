"""The requests of the control socket, one class each: the command line builds them, the daemon checks them.

Plain data that imports nothing expensive, since every command of the command line may send one. `lookup` reads them
from JSON; the code that carries them out checks the limits of their values.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, dataclass_transform

GOALS_MAX = 1_000  # How many goals one request may name
IMPORTED_AT_ONCE_MAX = 100  # How many strategies one request may import


@dataclass_transform(frozen_default=True)
class ControlRequest:
    """A request, as a frozen dataclass; `method` is its name on the socket."""

    method: ClassVar[str]

    def __init_subclass__(cls, method: str = "") -> None:
        cls.method = method
        dataclass(frozen=True)(cls)

    def params(self) -> dict[str, Any]:
        """Return the parameters as they are sent: without those that are None."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in values.items() if value is not None}


# ---- the daemon


class PingRequest(ControlRequest, method="ping"):
    """Ask for the view of the daemon: its process, version, and whether it is ready."""


class HealthRequest(ControlRequest, method="health"):
    """Ask for the state of the ledger, and for a histogram of how long commits to it took."""


class StatusRequest(ControlRequest, method="status"):
    """Ask for one goal's tree, or for the goals that have not ended and the last `limit` of the others (None: all).

    `before` restricts both to goals that were accepted before that one.
    """

    goal: str | None = None
    before: str | None = None
    limit: int | None = None


class FollowRequest(ControlRequest, method="follow"):
    """Ask for the durable events of one goal, or of all, as they are recorded (docs/stream.md).

    `after` is the cursor of an earlier answer or notification; without it, the events from now on.
    """

    goal: str | None = None
    after: str | None = None


class ReloadRequest(ControlRequest, method="reload"):
    """Read the config again."""


class SettingsRequest(ControlRequest, method="settings"):
    """Ask for the settings in force."""


class ExecutorEnvRequest(ControlRequest, method="executor_env"):
    """Ask for the environment of executors."""


# ---- goals: `goal` is a name, an id, or the beginning of either


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
    """Change one `goal`, several `goals`, or `all` to which the change applies."""

    goal: str | None = None
    goals: tuple[str, ...] | None = None
    all: bool = False


class PauseRequest(GoalChangeRequest, method="pause"):
    """Stop work on goals until they are resumed: after the running action, or `now`."""

    now: bool | None = None


class ResumeRequest(GoalChangeRequest, method="resume"):
    """Resume paused, waiting or blocked goals."""


class ContinueRequest(GoalChangeRequest, method="continue"):
    """Go on with goals that are paused, waiting, blocked, failed or cancelled; or completed ones with feedback."""


class CancelRequest(GoalChangeRequest, method="cancel"):
    """End goals, and their workers."""


class RetryRequest(GoalChangeRequest, method="retry"):
    """Continue goals that failed, were cancelled or are blocked; or completed ones with feedback."""


class RemoveRequest(GoalChangeRequest, method="rm"):
    """Take goals that have ended out of the lists."""


class EditRequest(ControlRequest, method="edit"):
    """Change what a goal asks for to what a goal file says, all of it; without `text`, ask whether that may be now."""

    goal: str
    text: str | None = None


class UndoRequest(ControlRequest, method="undo"):
    """Show what undoing a goal, or one `subtask` (its task's and its own index), would do; or `perform` it.

    `theirs` overwrites what someone else has changed too. `expected` is the `plan` of an earlier answer: if there is
    another one by now, nothing is restored.
    """

    goal: str
    subtask: tuple[int, int] | None = None
    theirs: bool = False
    perform: bool = False
    expected: str | None = None


# ---- the playbook


class RemoveStrategyRequest(ControlRequest, method="playbook_remove"):
    """Move a strategy to the archive."""

    id: str


class RestoreStrategyRequest(ControlRequest, method="playbook_restore"):
    """Take a strategy out of the archive."""

    id: str


class PruneRequest(ControlRequest, method="playbook_prune"):
    """Archive the strategies that score below a threshold (None: that of the config)."""

    below: float | None = None


class ImportRequest(ControlRequest, method="playbook_import"):
    """Import strategies, each a JSON object as in an export."""

    bullets: tuple[Any, ...]
