"""Finds the goal that a request means."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from clew_daemon.control.checking import WHICH_GOAL
from clew_daemon.control.server import ControlError
from clew_daemon.record.naming import ambiguous, meant
from clew_shared.text.spelling import closest

if TYPE_CHECKING:
    from clew_daemon.record.goals import GoalStore
    from clew_shared.core.core import Core

SHOWN_MAX = 10


class GoalLookup:
    """Finds goals by a name, an id, or the beginning of either."""

    def __init__(self, goals: GoalStore) -> None:
        self._goals = goals

    def find(self, name: str | None) -> Core:
        """Find a goal; raises ControlError."""
        cores = self._goals.cores
        if not name:
            raise ControlError(WHICH_GOAL)
        if name in cores:
            return cores[name]
        states = self._goals.states()
        names = {goal: state.spec.name for goal, state in states.items()}
        found = meant(
            name, names, lambda goal: states[goal].ended, lambda goal: states[goal].removed
        )
        if len(found) == 1:
            return cores[found[0]]
        if found:
            raise ControlError(ambiguous(name, (states[goal] for goal in found), time.time()))
        if name in self._goals.gone:
            raise ControlError(f"{name} was deleted: it ended more than `[ledger] keep_days` ago")
        listed = [(goal, s.spec.name) for goal, s in states.items() if not s.removed]
        near = closest(name, {one for both in listed for one in both if one})
        raise ControlError(f"no goal {name!r}" + (f"; did you mean {near}?" if near else ""))

    async def whole(self, name: str | None) -> Core:
        """Find a goal, with all of its state; raises ControlError."""
        goal = self.find(name).state.goal_id
        try:
            return await self._goals.whole(goal)
        except KeyError:  # it was removed while it was read
            return self.find(goal)

    def id_of(self, name: str) -> str:
        """Return the id for a name; the name itself if it matches no goal."""
        with contextlib.suppress(ControlError):
            return self.find(name).state.goal_id
        return name
