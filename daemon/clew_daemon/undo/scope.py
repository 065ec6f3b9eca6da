"""Which snapshots an undo or a diff lies between: a goal, one of its subtasks, or the undo before it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from clew_shared.record import events as ev
from clew_shared.record import snapshot_events as snap

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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


def of_last_undo(rows: Sequence[tuple[int, ev.Event]]) -> Span | None:
    """Return the span of the last undo that restored something; None where there is none."""
    span, before, begun = None, 0, 0
    pending = False
    for seq, event in rows:
        match event:
            case snap.UndoStarted():
                begun = before
            case snap.UndoFinished() if event.restored:
                pending = True
            case snap.SnapshotTaken():
                before = seq
                if pending:
                    span, pending = Span("undo", begun, seq), False
            case _:
                pass
    return span
