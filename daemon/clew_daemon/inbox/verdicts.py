"""What becomes of a dropped file: the verdicts that `accept` may return. Pure data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from clew_daemon.inbox.files import Dropped


@dataclass(frozen=True, slots=True)
class Accepted:
    """It is a goal and durably recorded: the file may go."""

    goal_id: str


@dataclass(frozen=True, slots=True)
class Already:
    """The very same drop was recorded before, by a daemon that died before it removed the file."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """It can never be a goal; `error` names what is wrong, where, and what would be right."""

    error: str


@dataclass(frozen=True, slots=True)
class Later:
    """It cannot be decided now (a full disk): try again in `after_s`, by default with back-off."""

    after_s: float | None = None


Verdict = Accepted | Already | Rejected | Later
Accept = Callable[[Dropped], Awaitable[Verdict]]
