"""Which subtask an event belongs to: a replan gives the number of one subtask to another, so numbers alone do not tell.

Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record import events as ev
from clew_shared.record.fold import apply
from clew_shared.record.model import StepStatus
from clew_shared.record.state import State

if TYPE_CHECKING:
    from clew_shared.record.model import Subtask

Place = tuple[int, int]
"""The index of a task and that of a subtask in it: what its number shows, as of one moment."""

_ADD = (ev.GoalAccepted, ev.GoalRequeued, ev.Planned, ev.TreeEdited)
_MARK = (ev.GoalEnded, ev.SubtaskStarted, ev.SubtaskFailed, ev.SubtaskEnded, ev.Escalated)


class NumberedSubtasks:
    """The subtasks of a goal as of the last event taken in; each has the same identity in all plans that have it.

    Identities are numbers from 1, in the order in which the subtasks came up; 0 stands for none.
    """

    def __init__(self) -> None:
        self._state = State()
        self._known: dict[int, tuple[Subtask, int]] = {}  # by id(): the fold keeps the objects
        self._last = 0

    def take(self, seq: int, event: ev.Event) -> None:
        """Take in the next event, oldest first."""
        if isinstance(event, _ADD):
            before = self._placed() if isinstance(event, ev.TreeEdited) else {}
            apply(self._state, event, seq)
            for place, subtask in self._placed().items():
                if id(subtask) not in self._known:
                    self._known[id(subtask)] = (subtask, self._identity(subtask, before.get(place)))
        elif isinstance(event, _MARK):
            apply(self._state, event, seq)

    def at(self, place: Place) -> int:
        """Return the identity of the subtask that is at a place now."""
        found = self._placed().get(place)
        return self._known[id(found)][1] if found else 0

    @property
    def place(self) -> Place:
        """Where the current subtask is."""
        return self._state.place

    @property
    def current(self) -> int:
        """The identity of the subtask that is being worked on."""
        subtask = self._state.subtask
        if subtask is None or self._state.ended or subtask.status != StepStatus.IN_PROGRESS:
            return 0
        return self._known[id(subtask)][1]

    def _placed(self) -> dict[Place, Subtask]:
        return {
            (t, s): subtask
            for t, task in enumerate(self._state.goal.tasks)
            for s, subtask in enumerate(task.subtasks)
        }

    def _identity(self, new: Subtask, edited: Subtask | None) -> int:
        """Return a new identity, or that of the subtask that an edit of the tree left in its place."""
        if edited is not None and edited.description == new.description:
            return self._known[id(edited)][1]
        self._last += 1
        return self._last
