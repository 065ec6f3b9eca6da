"""Events of the daemon that belong to no goal: its playbook, its home, and the goals that were purged."""

from typing import Literal

from clew_shared.record.events import Event
from clew_shared.record.identity import Identity
from clew_shared.record.model import GoalStatus


class PlaybookEvent(Event, frozen=True):
    """A change to the playbook; `id` names the strategy."""

    id: str


class BulletAdded(PlaybookEvent, frozen=True):
    """A strategy was learned or imported."""

    section: str
    content: str
    source_goal: str = ""
    helpful: int = 0
    harmful: int = 0
    neutral: int = 0
    evidence: str = ""  # what it was drawn from
    actions: tuple[int, ...] = ()  # … with their numbers
    expires_at: float = 0.0  # of clew 0.1.0: one that has it is in the archive
    created_at: str = ""  # an imported strategy's own date
    seen_in: tuple[str, ...] = ()  # the goals whose checks passed that showed a loop


class BulletTagged(PlaybookEvent, frozen=True):
    """A strategy was credited, and why."""

    tag: Literal["helpful", "harmful", "neutral"]
    source_goal: str = ""
    times: int = 1
    reason: str = ""
    seen: bool = False  # the source goal had the loop that it is about, and its checks passed


class BulletUpdated(PlaybookEvent, frozen=True):
    """A strategy was worded differently."""

    content: str
    source_goal: str = ""


class BulletRemoved(PlaybookEvent, frozen=True):
    """A strategy was archived, and why."""

    reason: str = ""
    source_goal: str = ""


class BulletRestored(PlaybookEvent, frozen=True):
    """A strategy was taken out of the archive, by an earlier clew."""


class HomeKnown(Event, frozen=True):
    """The home that the ledger belongs to from now on: its state folder, at `path` on `host`."""

    identity: Identity
    path: str
    host: str = ""
    pid_namespace: int | None = None  # process numbers are valid within it


class ModelUsed(Event, frozen=True):
    """What a model needed in a goal."""

    model: str
    goal: str
    completed: bool = False  # the goal was completed there, and its checks passed
    needed: int = 0  # turns in the longest attempt that completed anything, 0: not recorded


class GoalForgotten(Event, frozen=True):
    """An ended goal is purged from the ledger; `status` is how it ended."""

    goal: str
    status: GoalStatus
