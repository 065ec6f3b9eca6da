"""Which snapshots an undo or a diff lies between: a goal, one of its subtasks, or the undo before it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Span:
    """From snapshot number `first` to number `last`, or to the present where that is None."""

    scope: Literal["goal", "subtask", "undo"]
    first: int
    last: int | None = None
    task_idx: int = 0
    subtask_idx: int = 0


def of_goal(rows: Iterable[tuple[int, ev.Event]]) -> Span | None:
    """Return the span of the whole goal; None where it has no snapshot."""
    for seq, event in rows:
        if isinstance(event, snap.SnapshotTaken):
            return Span("goal", seq)
    return None


def of_subtask(
    rows: Iterable[tuple[int, ev.Event]], task_idx: int, subtask_idx: int
) -> Span | None:
    """Return the span of a subtask, from before its first action to its end; None where it did nothing.

    A subtask that was started again counts from its first start to its last end.
    """
    here, first, last, before = False, 0, None, 0
    for seq, event in rows:
        match event:
            case ev.SubtaskStarted():
                here = (event.task_idx, event.subtask_idx) == (task_idx, subtask_idx)
                last = None if here else last
            case snap.SnapshotTaken():
                before = seq
                if first and not here and last is None:
                    last = seq
            case ev.ActionFinished() | ev.ActionInterrupted() if here:
                first = first or before
            case ev.SubtaskEnded() | ev.GoalEnded():
                here = False
            case _:
                pass
    return Span("subtask", first, last, task_idx, subtask_idx) if first else None


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
    theirs: bool
    left: tuple[str, ...] = ()


def undo_in_force(rows: Iterable[tuple[int, ev.Event]], of: Span) -> UndoInForce | None:
    """Return the last undo of the goal or the subtask of `of` that is in force; None where there is none."""
    found = [one for one in _undos_in_force(rows) if _is_same_scope(one.of, of)]
    return found[-1] if found else None


def _is_same_scope(one: Span, other: Span) -> bool:
    return _scope_of(one) == _scope_of(other)


def _scope_of(span: Span) -> tuple[str, int, int]:
    return span.scope, span.task_idx, span.subtask_idx


def _undos_in_force(rows: Iterable[tuple[int, ev.Event]]) -> list[UndoInForce]:
    """Return the undos that no later undo has reverted, oldest first."""
    found: list[UndoInForce] = []
    before = begun = 0
    started: snap.UndoStarted | None = None
    finished: snap.UndoFinished | None = None
    for seq, event in rows:
        match event:
            case snap.UndoStarted():
                started, begun = event, before
            case snap.UndoFinished() if event.restored:
                finished = event
            case snap.SnapshotTaken():
                before = seq
                if started and finished:
                    found = _with(found, started, finished, Span("undo", begun, seq))
                    finished = None
            case _:
                pass
    return found


def _with(
    found: list[UndoInForce], started: snap.UndoStarted, finished: snap.UndoFinished, span: Span
) -> list[UndoInForce]:
    """Return the undos in force after one more is complete, which may be the reversal of one of them."""
    of = of_undo(started)
    if of.scope == "undo":
        return [one for one in found if (one.span.first, one.span.last) != (of.first, of.last)]
    return [*found, UndoInForce(of, span, started.theirs, finished.left)]
