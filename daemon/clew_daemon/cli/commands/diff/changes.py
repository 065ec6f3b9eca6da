"""What a goal, or one of its subtasks, changed: read from the ledger and its store, with or without a daemon."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew_daemon.host.git import program
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.queries import goal_state, open_ledger
from clew_daemon.undo import scope
from clew_shared.record import snapshot_events as snap
from clew_shared.record.codec import decode
from clew_shared.snapshots.comparison import ChangedFile, comparison
from clew_shared.snapshots.entries import LEFT_OUT, differences
from clew_shared.snapshots.plan import PLAN_S, listed, own_changes
from clew_shared.snapshots.store import StoreError, StoreSlowError, at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_daemon.cli.subtasks import Position
    from clew_daemon.reading.instance import Instance
    from clew_daemon.undo.scope import Rows, Span
    from clew_shared.record.state import State
    from clew_shared.snapshots.comparison import Comparison


@dataclass(frozen=True)
class GoalDiff:
    """The changes between two snapshots on record; `foreign` counts the files that someone else changed."""

    state: State
    first: snap.SnapshotTaken
    last: snap.SnapshotTaken
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
    rows = [row for row in rows if row[0] <= (span.last or row[0])]
    taken = {seq: event for seq, event in rows if isinstance(event, snap.SnapshotTaken)}
    first, last = taken[span.first], taken[max(taken)]
    try:
        store = at(instance.places.snapshots / goal, program(instance.env)).within(PLAN_S)
        if not store.exists:
            raise CliError(f"the snapshots of {goal} are gone: there is no {store.folder}")
        list_of = listed(store)
        own = own_changes(rows, list_of, span.first)
        others = differences(list_of(first.tree), list_of(last.tree)).items()
        foreign = sum(
            name not in own and any(one and (one.id or one == LEFT_OUT) for one in change)
            for name, change in others
        )
        with comparison(store, first.tree, own) as compared:
            yield GoalDiff(state, first, last, compared.files(), foreign, compared)
    except StoreSlowError:
        raise CliError(f"reading the snapshots of {goal} took more than {PLAN_S:.0f} s") from None
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
