"""Which snapshots an undo, a diff or an attempt's restore lies between. Pure.

An undo is of a goal, of one of its subtasks, or of the undo before it. `rows` are all events of the goal, oldest
first. Where its store was removed, only the snapshots taken since count.
"""

from __future__ import annotations

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

    `subtask` is the one that it is of, if of one, which is at `place`.
    """

    scope: Literal["goal", "subtask", "undo", "attempt"]
    first: int
    last: int | None = None
    place: Place = (0, 0)
    subtask: Subtask | None = None


class _Subtasks:
    """The subtasks of a goal as of the last event taken in."""

    def __init__(self) -> None:
        self._state = State()

    def take(self, seq: int, event: ev.Event) -> None:
        if isinstance(event, _TREE):
            apply(self._state, event, seq)

    def at(self, place: Place) -> Subtask | None:
        """Return the one that is at a place now."""
        task, number = place
        if task >= len(self._state.goal.tasks):
            return None
        known = [one.description for one in self._state.goal.tasks[task].subtasks]
        return (
            (task, known[number], known[:number].count(known[number]))
            if number < len(known)
            else None
        )

    @property
    def current(self) -> Subtask | None:
        """The one that is being worked on."""
        subtask = self._state.subtask
        if subtask is None or self._state.ended or subtask.status != StepStatus.IN_PROGRESS:
            return None
        return self.at(self._state.place)


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


def of_subtask(rows: Rows, task_idx: int, subtask_idx: int) -> Span:
    """Return the span of the subtask that is now at a place, from before its first action to its last end.

    It covers all tries of the subtask. Raises NoSpanError where it did nothing, or there is no snapshot from before.
    """
    subtasks, found = _Subtasks(), dict[Subtask, tuple[int, int | None]]()
    acting: dict[int, Subtask] = {}  # the subtasks of actions that were allowed
    before = 0  # the last snapshot: an action's end waits for one that is due, so it is from before the action

    for seq, event in rows:
        subtasks.take(seq, event)
        ended: tuple[int, ...] = ()
        match event:
            case ev.ActionAllowed() | ev.ActionBlocked(done=True) if subtasks.current:
                acting[seq] = subtasks.current
            case ev.ActionFinished() | ev.ActionInterrupted():
                ended = (event.of,)
            case snap.SnapshotTaken():
                ended = event.cut_off  # it shows what they did
            case snap.SnapshotsMissing(removed=True):
                before, gone = 0, tuple[int, int | None]((0, None))
                found = dict.fromkeys(found, gone)
            case _:
                pass
        for one in (acting.pop(action) for action in ended if action in acting):
            found[one] = found.get(one, (before, None))[0], None
        if isinstance(event, snap.SnapshotTaken):
            before = seq
            over = [one for one, (_, last) in found.items() if not last and one != subtasks.current]
            found |= {one: (found[one][0], seq) for one in over}
    this = subtasks.at((task_idx, subtask_idx))
    if this is None or this not in found:
        raise NothingDoneError("that subtask has carried out no action")
    first, last = found[this]
    if not first:
        raise NoSpanError("there is no snapshot from before the first action of that subtask")
    return Span("subtask", first, last, (task_idx, subtask_idx), this)


def of_attempts(rows: Rows, task_idx: int, subtask_idx: int) -> Span:
    """Return the span of all attempts at the subtask that is at a place, up to the present; raises as of_subtask.

    Where a person has reopened the goal, what they saw then is where it begins.
    """
    if of_goal(rows) is None:
        raise NoSpanError("there is no snapshot")
    reopened, waits = 0, False
    for seq, event in rows:
        match event:
            case ev.GoalRequeued(reopen=True):
                waits = True
            case snap.SnapshotTaken() if waits:
                reopened, waits = seq, False
            case _:
                pass
    span = of_subtask(rows, task_idx, subtask_idx)
    return replace(span, scope="attempt", first=max(span.first, reopened), last=None)


def of_undo(started: snap.UndoStarted) -> Span:
    """Return the span that an undo on record reverts."""
    place = (started.task_idx, started.subtask_idx)
    return Span(started.scope, started.first, started.last, place)


@dataclass(frozen=True, slots=True)
class UndoInForce:
    """An undo that restored something and was not reverted: what it was of, its own span, and what it then left."""

    of: Span
    span: Span
    left: tuple[str, ...] = ()


def undo_in_force(rows: Rows, of: Span) -> UndoInForce | None:
    """Return the last undo of the goal or the subtask of `of` that no later one has reverted; None for none."""
    subtasks, found = _Subtasks(), list[UndoInForce]()
    before = 0
    begun: UndoInForce | None = None
    finished: snap.UndoFinished | None = None
    for seq, event in rows:
        subtasks.take(seq, event)
        match event:
            case snap.UndoStarted():
                undone = of_undo(event)
                if event.scope == "subtask":
                    undone = replace(undone, subtask=subtasks.at(undone.place))
                begun, finished = UndoInForce(undone, Span("undo", before)), None
            case snap.UndoFinished() if event.restored:
                finished = event
            case snap.SnapshotTaken():
                before = seq
                if begun and finished:
                    span = replace(begun.span, last=seq)
                    found = _with(found, replace(begun, span=span, left=finished.left))
                    begun = None
            case snap.SnapshotsMissing(removed=True):
                found, begun = [], None
            case _:
                pass
    same = [one for one in found if (one.of.scope, one.of.subtask) == (of.scope, of.subtask)]
    return same[-1] if same else None


def _with(found: list[UndoInForce], one: UndoInForce) -> list[UndoInForce]:
    """Return the undos in force after one more, which may be the reversal of one of them; clew's own are none."""
    if one.of.scope == "attempt":
        return found
    if one.of.scope == "undo":
        reverted = (one.of.first, one.of.last)
        return [old for old in found if (old.span.first, old.span.last) != reverted]
    return [*found, one]
