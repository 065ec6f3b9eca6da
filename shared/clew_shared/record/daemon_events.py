"""Events of the daemon that belong to no goal: its playbook, its home, and the goals that were purged."""

from __future__ import annotations

from typing import Literal

from clew_shared.record.events import Event
from clew_shared.record.identity import Identity
from clew_shared.record.model import GoalStatus
from clew_shared.record.prompt_facts import CallForms


class PlaybookEvent(Event, frozen=True):
    """A change to the playbook; `id` names the strategy."""

    id: str


class BulletAdded(PlaybookEvent, frozen=True):
    """A strategy was learned or imported.

    `evidence` and `actions` (their numbers) are what it was drawn from, `created_at` is an imported strategy's own
    date, and from `expires_at` on (seconds since 1970; 0: never) it is shown to no agent. `seen_in` names the goals
    whose checks passed that showed a loop.
    """

    kind: Literal["bullet_added"] = "bullet_added"
    section: str
    content: str
    source_goal: str = ""
    helpful: int = 0
    harmful: int = 0
    neutral: int = 0
    evidence: str = ""
    actions: tuple[int, ...] = ()
    expires_at: float = 0.0
    created_at: str = ""
    seen_in: tuple[str, ...] = ()


class BulletTagged(PlaybookEvent, frozen=True):
    """A strategy was credited, and why; `expires_at` is later for a lesson that was learned again.

    `seen`: the source goal, whose checks passed, had the loop that the strategy is about.
    """

    kind: Literal["bullet_tagged"] = "bullet_tagged"
    tag: Literal["helpful", "harmful", "neutral"]
    source_goal: str = ""
    times: int = 1
    reason: str = ""
    expires_at: float = 0.0
    seen: bool = False


class BulletUpdated(PlaybookEvent, frozen=True):
    """A strategy was worded differently."""

    kind: Literal["bullet_updated"] = "bullet_updated"
    content: str
    source_goal: str = ""


class BulletRemoved(PlaybookEvent, frozen=True):
    """A strategy was archived, and why."""

    kind: Literal["bullet_removed"] = "bullet_removed"
    reason: str = ""
    source_goal: str = ""


class BulletRestored(PlaybookEvent, frozen=True):
    """A strategy was taken out of the archive."""

    kind: Literal["bullet_restored"] = "bullet_restored"


class HomeKnown(Event, frozen=True):
    """The home that the ledger belongs to from now on.

    `identity` is that of the state folder, at `path` on `host`; process numbers are valid within `pid_namespace`.
    """

    kind: Literal["home_known"] = "home_known"
    identity: Identity
    path: str
    host: str = ""
    pid_namespace: int | None = None


class ModelKnown(Event, frozen=True):
    """What clew has learned of a model at an endpoint: the last of these events counts.

    `served` is what the server says that it runs, `mode` and `forms` how the model calls tools best and the counts
    that say so, `rung` the richest `response_format` of JSON mode that is accepted. `goals` and `calls` are how many
    it was learned from, `goals_in_json` how many goals in a row were asked for JSON without a try of native calls.
    """

    kind: Literal["model_known"] = "model_known"
    model: str
    served: str = ""
    mode: Literal["tools", "json"] = "tools"
    forms: CallForms = CallForms()
    rung: int = 0
    chars_per_token: float = 4.0
    goals: int = 0
    calls: int = 0
    goals_in_json: int = 0


class ModelUsed(Event, frozen=True):
    """What a model needed in a goal: `needed` turns in the longest attempt that completed anything.

    `completed`: the goal was completed there, and its checks passed. Records from before `needed` say nothing.
    """

    kind: Literal["model_used"] = "model_used"
    model: str
    goal: str
    completed: bool = False
    needed: int = 0


class GoalForgotten(Event, frozen=True):
    """An ended goal is purged from the ledger; `status` is how it ended."""

    kind: Literal["goal_forgotten"] = "goal_forgotten"
    goal: str
    status: GoalStatus
