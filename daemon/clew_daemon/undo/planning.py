"""What an undo of a goal or a subtask would do, from its record and its store: it blocks, and changes nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_daemon.undo import scope
from clew_daemon.undo.repositories import spared
from clew_shared.record import snapshot_events as snap
from clew_shared.snapshots.plan import above_removed, folders_of_others, plan
from clew_shared.snapshots.steps import PLAN_S, steps
from clew_shared.snapshots.store import StoreError, StoreSlowError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew_daemon.undo.scope import Span, UndoInForce
    from clew_shared.record import events as ev
    from clew_shared.record.snapshot_events import GitPlace
    from clew_shared.snapshots.plan import Step, UndoPlan
    from clew_shared.snapshots.store import SnapshotStore

    Rows = Sequence[tuple[int, ev.Event]]


class UndoRefused(Exception):
    """There is nothing that could be undone; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class PlannedUndo:
    """What is undone, between which snapshots; `tree` is that of the snapshot `first`, which is gone back to.

    `others` are folders that someone else made: they stay even if they become empty. `digest` is of what would be
    restored and left, for comparison with an earlier plan.
    """

    span: Span
    plan: UndoPlan
    tree: str
    first: snap.SnapshotTaken | None = None
    others: tuple[str, ...] = ()
    digest: str = ""

    @property
    def git(self) -> GitPlace | None:
        """Where the user's repository stood at that snapshot."""
        return self.first.git if self.first else None


def planned_undo(
    store: SnapshotStore, rows: Rows, subtask: tuple[int, int] | None, *, theirs: bool
) -> PlannedUndo:
    """Plan an undo from all events of a goal; where nothing is left to undo, the reversal of the last one.

    The last event is the snapshot of the present. Raises UndoRefused, StoreError; each in bounded time.
    """
    span = _span(rows, subtask)
    known = _steps(store, rows, span)
    found = _plan(rows, known, span)
    last = scope.undo_in_force(rows, span)
    if last and not _is_pending(found, last, theirs=theirs):
        span, found = _reversal(rows, known, last, found) or (span, found)
    return _planned(rows, known, span, found, theirs=theirs)


def planned_restore(store: SnapshotStore, rows: Rows, span: Span) -> PlannedUndo:
    """Plan how the workspace is put back to where a subtask began, for the next attempt; raises as planned_undo."""
    known = _steps(store, rows, span)
    return _planned(rows, known, span, _plan(rows, known, span), theirs=False)


def _plan(rows: Rows, known: list[Step], span: Span, until: int | None = None) -> UndoPlan:
    """Plan as of snapshot number `until`, or of the present."""
    shown = {
        seq: event
        for seq, event in rows
        if isinstance(event, snap.SnapshotTaken) and seq <= (until or seq)
    }
    then = [step for step in known if step.seq <= (until or step.seq)]
    before, now = shown[span.first], shown[max(shown)]
    return spared(plan(then, span.first, span.last), before.inner, now.inner)


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
    undone = [*found.restore, *(found.overwritten if theirs else ())]
    others = above_removed(undone, folders_of_others(known, span.first))
    return PlannedUndo(span, found, first.tree, first, others, _digest(span, found))


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


def _is_pending(found: UndoPlan, last: UndoInForce, *, theirs: bool) -> bool:
    """Return whether something is left to undo, but for folders that the last undo could not remove."""
    kept = [
        one
        for one in found.restore
        if one.name in last.left and one.wanted is None and one.is_folder
    ]
    return len(found.restore) > len(kept) or (theirs and bool(found.overwritten))


def _reversal(
    rows: Rows, known: list[Step], last: UndoInForce, found: UndoPlan
) -> tuple[Span, UndoPlan] | None:
    """Return the reversal of the last undo of the same goal or subtask, None where that is not what is asked for.

    Files that it had left already do not count as something else that is left to undo.
    """
    if not {one.name for one in found.left} <= _left_by(rows, last, known):
        return None
    back = _plan(rows, known, last.span)
    is_shown = back.restore or (back.left and not found.left)
    return (last.span, back) if is_shown else None


def _left_by(rows: Rows, undo: UndoInForce, known: list[Step]) -> set[str]:
    """Return what an undo has left as it was, with what someone else changed while it went on."""
    after = _plan(rows, known, undo.of, undo.span.last)
    return {*undo.left, *(one.name for one in after.left)}
