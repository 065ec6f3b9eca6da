"""Which snapshots an undo, a diff or an attempt's restore lies between. Pure.

An undo is of a goal, of one of its subtasks, or of the undo before it.

`rows` are all events of the goal, oldest first. Where its store was removed, only the snapshots taken since count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap
from clew_shared.record.fold import apply
from clew_shared.record.model import StepStatus, Subtask
from clew_shared.record.state import State

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


class NoSpanError(Exception):
    """It is not known what a subtask changed, or it changed nothing; the text says why."""


class NothingDoneError(NoSpanError):
    """A subtask has carried out no action."""


@dataclass(frozen=True, slots=True)
class Span:
    """From snapshot number `first` to number `last`, or to the present where that is None.

    `task_idx` and `subtask_idx` are the place of the subtask, `subtask` is its identity (NumberedSubtasks).
    """

    scope: Literal["goal", "subtask", "undo", "attempt"]
    first: int
    last: int | None = None
    task_idx: int = 0
    subtask_idx: int = 0
    subtask: int = 0


def of_goal(rows: Iterable[tuple[int, ev.Event]]) -> Span | None:
    """Return the span of the whole goal; None where it has no snapshot."""
    first = 0
    for seq, event in rows:
        match event:
            case snap.SnapshotTaken():
                first = first or seq
            case snap.SnapshotsMissing(removed=True):
                first = 0
            case _:
                pass
    return Span("goal", first) if first else None


def of_subtask(rows: Iterable[tuple[int, ev.Event]], task_idx: int, subtask_idx: int) -> Span:
    """Return the span of the subtask that is now at a place, from before its first action to its last end.

    It covers all tries of the subtask. Raises NoSpanError where it did nothing, or there is no snapshot from before.
    """
    spans = _SubtaskSpans()
    for seq, event in rows:
        spans.take(seq, event)
    return spans.span((task_idx, subtask_idx))


def of_attempts(rows: Sequence[tuple[int, ev.Event]], task_idx: int, subtask_idx: int) -> Span:
    """Return the span of all attempts at the subtask that is at a place, up to the present; raises as of_subtask.

    Where a person has reopened the goal, what they saw then is where it begins.
    """
    if of_goal(rows) is None:
        raise NoSpanError("there is no snapshot")
    span = of_subtask(rows, task_idx, subtask_idx)
    first = max(span.first, _reopened(rows))
    return replace(span, scope="attempt", first=first, last=None)


def _reopened(rows: Iterable[tuple[int, ev.Event]]) -> int:
    """Return the first snapshot since a person last reopened the goal, 0 for none."""
    first, waits = 0, False
    for seq, event in rows:
        match event:
            case ev.GoalRequeued(reopen=True):
                waits = True
            case snap.SnapshotTaken() if waits:
                first, waits = seq, False
            case _:
                pass
    return first


class _SubtaskSpans:
    """The first and the last snapshot of each subtask that has acted, by its identity."""

    def __init__(self) -> None:
        self._subtasks = NumberedSubtasks()
        self._found: dict[int, tuple[int, int | None]] = {}
        self._acting: dict[int, int] = {}  # the subtasks of actions that were allowed
        self._acted_at: set[Place] = set()
        self._before = 0  # the last snapshot, 0 for none

    def take(self, seq: int, event: ev.Event) -> None:
        self._subtasks.take(seq, event)
        match event:
            case ev.ActionAllowed() | ev.ActionBlocked(done=True):
                self._acting[seq] = self._subtasks.current
            case ev.ActionFinished() | ev.ActionInterrupted():
                self._acted(event.of)
            case snap.SnapshotTaken():
                for action in event.cut_off:  # it shows what they did
                    self._acted(action)
                self._before = seq
                self._end_all_but(self._subtasks.current, seq)
            case snap.SnapshotsMissing(removed=True):
                self._before = 0
                self._found = dict.fromkeys(self._found, (0, None))
            case _:
                pass

    def span(self, place: Place) -> Span:
        one = self._subtasks.at(place)
        if one not in self._found:
            why = "that subtask has carried out no action"
            if place in self._acted_at:
                why += (
                    " since the plan was changed; the one that had this number before was replaced"
                )
            raise NothingDoneError(why)
        first, last = self._found[one]
        if not first:
            raise NoSpanError("there is no snapshot from before the first action of that subtask")
        return Span("subtask", first, last, *place, one)

    def _acted(self, action: int) -> None:
        """Take in that an action has ended: it waits for a snapshot that is due, so the last one is from before it."""
        if subtask := self._acting.pop(action, 0):
            first, _ = self._found.get(subtask, (self._before, None))
            self._found[subtask] = first, None
            self._acted_at.add(self._subtasks.place)

    def _end_all_but(self, current: int, seq: int) -> None:
        for subtask, (first, last) in self._found.items():
            if last is None and subtask != current:
                self._found[subtask] = first, seq


def of_undo(started: snap.UndoStarted) -> Span:
    """Return the span that an undo on record reverts."""
    return Span(started.scope, started.first, started.last, started.task_idx, started.subtask_idx)


@dataclass(frozen=True, slots=True)
class UndoInForce:
    """An undo that restored something and was not reverted: what it was of, its own span, and what it then left.

    `left` are the names that had changed while it was performed.
    """

    of: Span
    span: Span
    left: tuple[str, ...] = ()


def undo_in_force(rows: Iterable[tuple[int, ev.Event]], of: Span) -> UndoInForce | None:
    """Return the last undo of the goal or the subtask of `of` that is in force; None where there is none."""
    found = [one for one in _undos_in_force(rows) if _is_same_scope(one.of, of)]
    return found[-1] if found else None


def _is_same_scope(one: Span, other: Span) -> bool:
    return (one.scope, one.subtask) == (other.scope, other.subtask)


def _undos_in_force(rows: Iterable[tuple[int, ev.Event]]) -> list[UndoInForce]:
    """Return the undos that no later undo has reverted, oldest first; no person has asked for those of attempts."""
    subtasks, found = NumberedSubtasks(), list[UndoInForce]()
    before = begun = 0
    started: snap.UndoStarted | None = None
    finished: snap.UndoFinished | None = None
    subtask = 0
    for seq, event in rows:
        subtasks.take(seq, event)
        match event:
            case snap.UndoStarted(scope="attempt"):
                started = finished = None
            case snap.UndoStarted():
                started, begun = event, before
                subtask = subtasks.at((event.task_idx, event.subtask_idx))
            case snap.UndoFinished() if event.restored:
                finished = event
            case snap.SnapshotTaken():
                before = seq
                if started and finished:
                    of = _undone(started, subtask)
                    one = UndoInForce(of, Span("undo", begun, seq), finished.left)
                    found = _with(found, one)
                    finished = None
            case snap.SnapshotsMissing(removed=True):
                found, finished = [], None
            case _:
                pass
    return found


def _undone(started: snap.UndoStarted, subtask: int) -> Span:
    """Return what an undo was of; `subtask` is the one that its numbers meant then."""
    of = of_undo(started)
    return replace(of, subtask=subtask) if of.scope == "subtask" else of


def _with(found: list[UndoInForce], one: UndoInForce) -> list[UndoInForce]:
    """Return the undos in force after one more is complete, which may be the reversal of one of them."""
    of = one.of
    if of.scope == "undo":
        return [old for old in found if (old.span.first, old.span.last) != (of.first, of.last)]
    return [*found, one]
