"""What an undo of a goal or a subtask would do, from its record and its store: it blocks, and changes nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_daemon.undo import scope
from clew_shared.record import snapshot_events as snap
from clew_shared.snapshots.plan import above_removed, folders_of_others, plan
from clew_shared.snapshots.steps import PLAN_S, steps
from clew_shared.snapshots.store import StoreError, StoreSlowError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew_daemon.undo.scope import Span, UndoInForce
    from clew_shared.record import events as ev
    from clew_shared.record.snapshot_events import GitPlace
    from clew_shared.snapshots.plan import Left, Restored, Step, UndoPlan
    from clew_shared.snapshots.store import SnapshotStore

    Rows = Sequence[tuple[int, ev.Event]]


class UndoRefused(Exception):
    """There is nothing that could be undone; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class PlannedUndo:
    """What is undone, between which snapshots; `tree` and `git` are those of the snapshot gone back to.

    `others` are folders that someone else made: they stay even if they become empty. `digest` is of what would be
    restored and left, for comparison with an earlier plan.
    """

    span: Span
    plan: UndoPlan
    tree: str
    git: GitPlace | None = None
    others: tuple[str, ...] = ()
    digest: str = ""


def planned_undo(
    store: SnapshotStore, rows: Rows, subtask: tuple[int, int] | None, *, theirs: bool
) -> PlannedUndo:
    """Plan an undo from all events of a goal; where nothing is left to undo, the reversal of the last one.

    The last event is the snapshot of the present. Raises UndoRefused, StoreError; each in bounded time.
    """
    span = _span(rows, subtask)
    known = _steps(store, rows, span)
    found = plan(known, span.first, span.last)
    if not (found.restore or (theirs and found.left)):
        span, found = _reversal(rows, known, span, found) or (span, found)
    return _planned(rows, known, span, found, theirs=theirs)


def planned_restore(store: SnapshotStore, rows: Rows, span: Span) -> PlannedUndo:
    """Plan how the workspace is put back to where a subtask began, for the next attempt; raises as planned_undo."""
    known = _steps(store, rows, span)
    return _planned(rows, known, span, plan(known, span.first, span.last), theirs=False)


def _steps(store: SnapshotStore, rows: Rows, span: Span) -> list[Step]:
    try:
        return steps(store.within(PLAN_S), rows, span.first)
    except StoreSlowError:
        text = f"nothing was restored: comparing the snapshots took more than {PLAN_S:.0f} s"
        raise StoreError(text) from None


def _planned(
    rows: Rows, known: list[Step], span: Span, found: UndoPlan, *, theirs: bool
) -> PlannedUndo:
    first = next(event for seq, event in rows if seq == span.first)
    assert isinstance(first, snap.SnapshotTaken)  # noqa: S101 - spans begin with a snapshot
    undone: list[Restored | Left] = [*found.restore, *(found.left if theirs else ())]
    others = above_removed(undone, folders_of_others(known, span.first))
    return PlannedUndo(span, found, first.tree, first.git, others, _digest(span, found))


def _span(rows: Rows, subtask: tuple[int, int] | None) -> Span:
    whole = scope.of_goal(rows)
    if whole is None:
        raise UndoRefused("there is no snapshot")
    try:
        return scope.of_subtask(rows, *subtask) if subtask else whole
    except scope.NoSpanError as error:
        raise UndoRefused(f"{error}; without a subtask, the whole goal is undone") from None


def _digest(span: Span, found: UndoPlan) -> str:
    return hashlib.blake2b(repr((span, found)).encode(), digest_size=16).hexdigest()


def _reversal(
    rows: Rows, known: list[Step], span: Span, found: UndoPlan
) -> tuple[Span, UndoPlan] | None:
    """Return the reversal of the last undo of the same goal or subtask, None where that is not what is asked for.

    Files that it had left already do not count as something else that is left to undo.
    """
    last = scope.undo_in_force(rows, span)
    if last is None or not {one.name for one in found.left} <= _left_by(last, known):
        return None
    back = plan(known, last.span.first, last.span.last)
    is_shown = back.restore or (back.left and not found.left)
    return (last.span, back) if is_shown else None


def _left_by(undo: UndoInForce, known: list[Step]) -> set[str]:
    """Return what an undo has left as it was, with what someone else changed while it went on."""
    then = [step for step in known if step.seq <= (undo.span.last or step.seq)]
    after = plan(then, undo.of.first, undo.of.last)
    return {*undo.left, *(one.name for one in after.left)}
