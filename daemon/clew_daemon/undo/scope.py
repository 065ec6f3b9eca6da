"""Which snapshots an undo, a diff or an attempt's restore lies between. Pure.

An undo is of a goal, of one of its subtasks, or of the undo before it. Where a goal's store was removed, only the
snapshots taken since count.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.fold import apply
from clew_shared.record.model import StepStatus
from clew_shared.record.state import State

Rows = Sequence[tuple[int, ev.Event]]
Place = tuple[int, int]
"""The index of a task and that of a subtask in it: what its number shows, as of one moment."""
Subtask = tuple[int, str, int]
"""Its task's index, its description, and how many before it in the task have the same: plans change its number."""

_TREE = (
    *(ev.GoalAccepted, ev.GoalRequeued, ev.Planned, ev.TreeEdited, ev.GoalEnded, ev.Escalated),
    *(ev.SubtaskStarted, ev.SubtaskFailed, ev.SubtaskEnded),
)


class NoSpanError(Exception):
    """It is not known what a subtask changed, or it changed nothing; the text says why."""


class NothingDoneError(NoSpanError):
    """A subtask has carried out no action."""


@dataclass(frozen=True, slots=True)
class Span:
    """From snapshot number `first` to number `last`, or to the present where that is None.

    `subtask` is the one that it is of, if of one, which is at `place`. That of an undo on record has what the undo was
    `of`, and what it then `left`.
    """

    scope: Literal["goal", "subtask", "undo", "attempt"]
    first: int
    last: int | None = None
    place: Place = (0, 0)
    subtask: Subtask | None = None
    of: "Span | None" = None
    left: tuple[str, ...] = ()


def of_undo(started: snap.UndoStarted) -> Span:
    """Return the span that an undo on record reverts."""
    place = (started.task_idx, started.subtask_idx)
    return Span(started.scope, started.first, started.last, place)


class Spans:
    """The spans of one goal; `rows` are all its events, oldest first."""

    def __init__(self, rows: Iterable[tuple[int, ev.Event]]) -> None:
        self._state = State()
        self._first = 0
        self._before = 0  # the last snapshot: an action waits for one that is due
        self._reopened, self._waits = 0, False  # the first snapshot after that; it is waited for
        self._acting: dict[int, Subtask] = {}  # the subtasks of actions that were allowed
        self._subtasks: dict[Subtask, tuple[int, int | None]] = {}
        self._begun: Span | None = None
        self._finished: snap.UndoFinished | None = None
        self._undos: list[Span] = []
        for seq, event in rows:
            if isinstance(event, _TREE):
                apply(self._state, event, seq)
            self._take(seq, event)

    def _take(self, seq: int, event: ev.Event) -> None:
        match event:
            case ev.GoalRequeued(reopen=True):
                self._waits = True
            case ev.ActionAllowed() | ev.ActionBlocked(done=True) if current := self._current():
                self._acting[seq] = current
            case ev.ActionFinished() | ev.ActionInterrupted():
                self._end(event.of)
            case snap.UndoStarted():
                of = of_undo(event)
                of = replace(of, subtask=self._at(of.place)) if of.scope == "subtask" else of
                self._begun, self._finished = Span("undo", self._before, of=of), None
            case snap.UndoFinished() if event.restored:
                self._finished = event
            case snap.SnapshotTaken():
                self._end(*event.cut_off)  # it shows what they did
                self._snapshot(seq)
            case snap.SnapshotsMissing(removed=True):
                self._first = self._before = 0
                self._subtasks = dict.fromkeys(self._subtasks, (0, None))
                self._undos, self._begun = [], None
            case _:
                pass

    def _end(self, *actions: int) -> None:
        for subtask in (self._acting.pop(one) for one in actions if one in self._acting):
            self._subtasks[subtask] = self._subtasks.get(subtask, (self._before, None))[0], None

    def _snapshot(self, seq: int) -> None:
        self._first = self._first or seq
        self._before = seq
        if self._waits:
            self._reopened, self._waits = seq, False
        current = self._current()
        for one, (first, last) in self._subtasks.items():
            if not last and one != current:
                self._subtasks[one] = first, seq
        if not (self._begun and self._begun.of and self._finished):
            return
        of, undo = self._begun.of, replace(self._begun, last=seq, left=self._finished.left)
        self._begun = None
        if of.scope == "undo":
            reverted = (of.first, of.last)
            self._undos = [one for one in self._undos if (one.first, one.last) != reverted]
        elif of.scope != "attempt":
            self._undos.append(undo)

    def _at(self, place: Place) -> Subtask | None:
        """Return the subtask that is at a place now."""
        task, number = place
        tasks = self._state.goal.tasks
        known = [one.description for one in tasks[task].subtasks] if task < len(tasks) else []
        if number >= len(known):
            return None
        return task, known[number], known[:number].count(known[number])

    def _current(self) -> Subtask | None:
        subtask = self._state.subtask
        if subtask is None or self._state.ended or subtask.status != StepStatus.IN_PROGRESS:
            return None
        return self._at(self._state.place)

    def of_goal(self) -> Span | None:
        """Return the span of the whole goal; None where it has no snapshot."""
        return Span("goal", self._first) if self._first else None

    def of_subtask(self, place: Place) -> Span:
        """Return the span of the subtask that is now at a place, from before its first action to its last end.

        It covers all its tries. Raises NoSpanError where it did nothing, or there is no snapshot from before.
        """
        this = self._at(place)
        if this is None or this not in self._subtasks:
            raise NothingDoneError("that subtask has carried out no action")
        first, last = self._subtasks[this]
        if not first:
            raise NoSpanError("there is no snapshot from before the first action of that subtask")
        return Span("subtask", first, last, place, this)

    def of_attempts(self, place: Place) -> Span:
        """Return the span of all attempts at the subtask that is at a place, up to the present; raises as of_subtask.

        Where a person has reopened the goal, what they saw then is where it begins.
        """
        if not self._first:
            raise NoSpanError("there is no snapshot")
        span = self.of_subtask(place)
        return replace(span, scope="attempt", first=max(span.first, self._reopened), last=None)

    def undo_in_force(self, of: Span) -> Span | None:
        """Return the last undo of the goal or the subtask of `of` that restored something and was not reverted."""
        same = (of.scope, of.subtask)
        found = [one for one in self._undos if one.of and (one.of.scope, one.of.subtask) == same]
        return found[-1] if found else None
