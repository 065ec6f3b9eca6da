"""What a goal, or one of its subtasks, changed: read from the ledger and its store, with or without a daemon."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_daemon.host.git import program
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.queries import goal_state, open_ledger
from clew_daemon.undo import scope
from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode
from clew_shared.snapshots.comparison import ChangedFile, comparison
from clew_shared.snapshots.entries import LEFT_OUT
from clew_shared.snapshots.plan import own_changes
from clew_shared.snapshots.steps import PLAN_S, comparing, steps
from clew_shared.snapshots.store import StoreError, StoreSlowError, at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_daemon.cli.subtasks import Position
    from clew_daemon.reading.instance import Instance
    from clew_daemon.undo.scope import Span
    from clew_shared.record import events as ev
    from clew_shared.record.state import State
    from clew_shared.snapshots.comparison import Comparison

Rows = Sequence[tuple[int, "ev.Event"]]


@dataclass(frozen=True)
class SnapshotPoint:
    """A snapshot on record: the number of its event, and what it says."""

    seq: int
    taken: snap.SnapshotTaken


@dataclass(frozen=True)
class GoalDiff:
    """The changes between two snapshots; `foreign` counts the files that someone else changed."""

    state: State
    first: SnapshotPoint
    last: SnapshotPoint
    files: list[ChangedFile]
    foreign: int
    compared: Comparison


@contextlib.contextmanager
def goal_diff(instance: Instance, goal: str, subtask: Position | None) -> Iterator[GoalDiff]:
    """Yield what a goal or a subtask changed; raises CliError where there is no snapshot, or it cannot be read."""
    state = goal_state(instance, goal)
    with open_ledger(instance) as reader:
        rows = [(row.seq, decode(row.body)) for row in reader.read(goal)]
    span = _span(state, rows, subtask)
    first, *_, last = _points(rows, span)
    try:
        store = at(instance.places.snapshots / goal, program(instance.env)).within(PLAN_S)
        if not store.exists:
            raise CliError(f"the snapshots of {goal} are gone: there is no {store.folder}")
        between = comparing(store)
        known = steps(between, rows, span.first, last.seq)
        own = own_changes(known, between, span.first)
        everything = between(first.taken.tree, last.taken.tree)
        with comparison(store, own) as compared:
            files = compared.files()
            foreign = sum(
                any(one and (one.id or one == LEFT_OUT) for one in everything[name])
                for name in everything.keys() - own.keys()
            )
            yield GoalDiff(state, first, last, files, foreign, compared)
    except StoreSlowError:
        raise CliError(f"comparing the snapshots of {goal} took more than {PLAN_S:.0f} s") from None
    except StoreError as error:
        raise CliError(f"the snapshots of {goal} cannot be read: {error}") from None


def _span(state: State, rows: Rows, subtask: Position | None) -> Span:
    span = scope.of_goal(rows)
    if span is None:
        why = state.snapshots.missing or "it has not started, or ran with an earlier version"
        raise CliError(f"{state.goal_id} has no snapshot: {why}")
    try:
        return scope.of_subtask(rows, *subtask) if subtask else span
    except scope.NoSpanError as error:
        raise CliError(f"{state.goal_id}: {error}; `clew diff {state.goal_id}` shows all") from None


def _points(rows: Rows, span: Span) -> list[SnapshotPoint]:
    """Return the snapshots of a span, oldest first, at least two: the only one counts as the last, too."""
    found = [
        SnapshotPoint(seq, event)
        for seq, event in rows
        if isinstance(event, snap.SnapshotTaken) and span.first <= seq <= (span.last or seq)
    ]
    return found if len(found) > 1 else found * 2
