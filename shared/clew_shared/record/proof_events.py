"""The events of proofs: what judged a finish, and who accepted it (docs/proof.md)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from clew_shared.record.life_events import GoalEvent

TakenKind = Literal["file", "tool", "home", "git", "process"]


class CheckRun(BaseModel, frozen=True, extra="ignore"):
    """How a check ended, and how many tests it said that it ran; null where that is not known."""

    exit_code: int | None = None
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    seconds: float = 0.0


class ProofCheck(BaseModel, frozen=True, extra="ignore"):
    """A check before the work, at the finish, and in the view; null where it was not run."""

    name: str
    before: CheckRun | None = None
    finish: CheckRun | None = None
    view: CheckRun | None = None


class TakenAway(BaseModel, frozen=True, extra="ignore"):
    """What judges and was changed, and so was taken away in the view."""

    path: str
    kind: TakenKind


class ProofMade(GoalEvent, frozen=True):
    """A label for the workspace as it is (`world`), durable before the agent hears of it.

    `tree` is its snapshot. `reason` is the agent's for its changes of tests; `without_work`: whether the checks pass
    with them and without its other changes, null where that was not tried.
    """

    world: str
    label: str
    tree: str = ""
    files: tuple[str, ...] = ()
    why: str = ""
    taken_away: tuple[TakenAway, ...] = ()
    checks: tuple[ProofCheck, ...] = ()
    diff: str = ""
    output: str = ""  # the end of that of the check that fails in the view
    reason: str = ""
    without_work: Literal["pass", "fail"] | None = None
    accepted: Literal["goal"] | None = None
    seconds: float = 0.0


class ProofRefused(GoalEvent, frozen=True):
    """A finish was refused by this label."""

    label: str
    files: tuple[str, ...] = ()
    why: str = ""
    reason: str = ""  # the agent's, for its changes of tests
    asked: bool = False  # a person is asked


class ProofAccepted(GoalEvent, frozen=True):
    """A person accepts the workspace as it was shown: from now on what judges is as it is in `tree`."""

    world: str
    tree: str
    by: Literal["person"] = "person"
    why: str = ""
