"""The requests of the control socket, one class each: the command line builds them, the daemon checks them.

Plain data that imports nothing expensive, since every command of the command line may send one. `checking` reads them
from JSON; the code that carries them out checks the limits of their values.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

GOALS_MAX = 1_000
"""How many goals one request may name."""
IMPORTED_AT_ONCE_MAX = 100
"""How many strategies one request may import."""


@dataclass(frozen=True)
class ControlRequest:
    """A request; `method` is its name on the socket."""

    method: ClassVar[str]

    def params(self) -> dict[str, Any]:
        """Return the parameters as they are sent: without those that are None."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


# ---- the daemon


@dataclass(frozen=True)
class PingRequest(ControlRequest):
    """Ask for the view of the daemon: its process, version, and whether it is ready."""

    method: ClassVar[str] = "ping"


@dataclass(frozen=True)
class StatusRequest(ControlRequest):
    """Ask for one goal's tree, or for the list of goals.

    The list has all goals that have not ended and the last `limit` of the others (None: all); `before` restricts both
    to goals that were accepted before that one.
    """

    method: ClassVar[str] = "status"
    goal: str | None = None
    before: str | None = None
    limit: int | None = None


@dataclass(frozen=True)
class ReloadRequest(ControlRequest):
    """Read the config again."""

    method: ClassVar[str] = "reload"


@dataclass(frozen=True)
class SettingsRequest(ControlRequest):
    """Ask for the settings in force."""

    method: ClassVar[str] = "settings"


@dataclass(frozen=True)
class ExecutorEnvRequest(ControlRequest):
    """Ask for the environment of executors."""

    method: ClassVar[str] = "executor_env"


# ---- goals: `goal` is a name, an id, or a unique beginning of either


@dataclass(frozen=True)
class FeedbackRequest(ControlRequest):
    """Send the agent a message; a blocked goal continues with it."""

    method: ClassVar[str] = "feedback"
    goal: str
    text: str


@dataclass(frozen=True)
class UnblockRequest(ControlRequest):
    """Allow a blocked action again."""

    method: ClassVar[str] = "unblock"
    goal: str
    signature: str


@dataclass(frozen=True)
class GoalChangeRequest(ControlRequest):
    """Change one `goal`, several `goals`, or `all` to which the change applies."""

    goal: str | None = None
    goals: tuple[str, ...] | None = None
    all: bool = False


@dataclass(frozen=True)
class PauseRequest(GoalChangeRequest):
    """Stop work on goals until they are resumed."""

    method: ClassVar[str] = "pause"


@dataclass(frozen=True)
class ResumeRequest(GoalChangeRequest):
    """Resume paused, waiting or blocked goals."""

    method: ClassVar[str] = "resume"


@dataclass(frozen=True)
class CancelRequest(GoalChangeRequest):
    """End goals, and their workers."""

    method: ClassVar[str] = "cancel"


@dataclass(frozen=True)
class RetryRequest(GoalChangeRequest):
    """Continue goals that failed, were cancelled or are blocked; or completed ones with feedback."""

    method: ClassVar[str] = "retry"


# ---- the playbook


@dataclass(frozen=True)
class RemoveStrategyRequest(ControlRequest):
    """Move a strategy to the archive."""

    method: ClassVar[str] = "playbook_remove"
    id: str


@dataclass(frozen=True)
class RestoreStrategyRequest(ControlRequest):
    """Take a strategy out of the archive."""

    method: ClassVar[str] = "playbook_restore"
    id: str


@dataclass(frozen=True)
class PruneRequest(ControlRequest):
    """Archive the strategies that score below a threshold (None: that of the config)."""

    method: ClassVar[str] = "playbook_prune"
    below: float | None = None


@dataclass(frozen=True)
class ImportRequest(ControlRequest):
    """Import strategies, each a JSON object as in an export."""

    method: ClassVar[str] = "playbook_import"
    bullets: tuple[Any, ...]
