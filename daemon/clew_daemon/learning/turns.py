"""How many turns a model needs: the longest attempt in each goal of its whose checks passed.

The length of an attempt follows from it (`clew_daemon.config.need`). Pure: a fold over a goal's events, and what the
folds of several goals have left in the ledger.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clew_daemon.config.need import GOALS_MIN
from clew_shared.record import events as ev
from clew_shared.record.daemon_events import ModelUsed
from clew_shared.record.visitor import EventFold, takes

if TYPE_CHECKING:
    from clew_shared.record.spec import Spec

RECENT_GOALS = 20
"""The goals of a model that count: its last ones whose checks passed."""

USED_LOADED_MAX = 2_000
"""How many of the latest records of all models are read."""


class TurnsFold(EventFold[tuple[ModelUsed, ...]]):
    """Folds a goal's events into the longest attempt of each model that completed a subtask.

    A goal that came to rest before says nothing: what its open attempt had taken by then was counted there.
    """

    def __init__(self, goal: str, spec: Spec, after: int = 0) -> None:
        super().__init__(after)
        self._goal = goal
        self._says_something = bool(spec.checks) and not after
        self._taken: Counter[str] = Counter()
        self._needed: dict[str, int] = {}

    @takes(ev.SubtaskStarted, ev.AttemptStarted)
    def _began(self, _seq: int, _event: ev.Event) -> None:
        self._taken.clear()

    @takes(ev.Reflected)
    def _turn(self, _seq: int, event: ev.Reflected) -> None:
        if event.prompt is not None and event.prompt.model:
            self._taken[event.prompt.model] += 1

    @takes(ev.SubtaskEnded)
    def _subtask_ended(self, _seq: int, event: ev.SubtaskEnded) -> None:
        if event.status == "completed":
            self._keep()

    @takes(*ev.RESTS)
    def _rested(self, _seq: int, event: ev.GoalEnded | ev.GoalBlocked) -> tuple[ModelUsed, ...]:
        completed = isinstance(event, ev.GoalEnded) and event.status == "completed"
        if completed:
            self._keep()
        needed, told = self._needed, completed and self._says_something
        self._needed, self._says_something = {}, False
        return tuple(
            ModelUsed(at=event.at, model=model, goal=self._goal, completed=True, needed=turns)
            for model, turns in needed.items()
            if told
        )

    def _keep(self) -> None:
        for model, turns in self._taken.items():  # the turn that says so is reported after it
            self._needed[model] = max(turns + 1, self._needed.get(model, 0))


@dataclass(slots=True)
class Needs:
    """What the last verified goals of each model needed, by the model."""

    by_model: dict[str, deque[int]] = field(default_factory=dict)

    def add(self, event: ModelUsed) -> None:
        """Take in a goal, the newest so far; an older record may say nothing."""
        if event.needed:
            goals = self.by_model.setdefault(event.model, deque(maxlen=RECENT_GOALS))
            goals.append(event.needed)

    def goals(self, model: str) -> int:
        """Return how many verified goals of a model count."""
        return len(self.by_model.get(model, ()))

    def turns(self, model: str) -> int:
        """Return the turns of the longest attempt in them, 0 for too few goals."""
        return max(self.by_model[model]) if self.goals(model) >= GOALS_MIN else 0


def recorded_needs(bodies: list[bytes]) -> Needs:
    """Return what models needed, from the bodies of events, newest first."""
    found = Needs()
    for body in reversed(bodies):
        found.add(ModelUsed.model_validate_json(body))
    return found
