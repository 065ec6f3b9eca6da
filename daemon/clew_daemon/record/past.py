"""A goal's record as it was at the end of an earlier attempt, for `clew context --attempt`."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from clew_shared.record.codec import decode
from clew_shared.record.fold import apply
from clew_shared.record.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_daemon.record.store import ReadableEvents
    from clew_shared.ledger import EventRow


class PastEvents:
    """The events of a ledger up to one of them."""

    def __init__(self, ledger: ReadableEvents, until: int) -> None:
        self._ledger = ledger
        self._until = until

    def read(self, goal: str, after: int = 0, limit: int | None = None) -> Iterator[EventRow]:
        rows = self._ledger.read(goal, after, limit)
        return takewhile(lambda row: row.seq <= self._until, rows)

    def output(self, seq: int) -> bytes | None:
        return self._ledger.output(seq)


def ends_of_attempts(ledger: ReadableEvents, goal: str) -> dict[int, int]:
    """Return the last event of each attempt at the goal's current subtask, by the attempt's number.

    The present attempt has the last event on record. Where a goal was reopened and numbers occur twice, the later
    attempt counts.
    """
    state, ends = State(goal_id=goal), dict[int, int]()
    for row in ledger.read(goal):
        subtask = state.subtask_seq
        apply(state, decode(row.body), row.seq)
        if state.subtask_seq != subtask:
            ends.clear()
        ends[state.attempt.number] = row.seq
    return ends


def state_of(ledger: ReadableEvents, goal: str) -> State:
    """Return a goal's state after all events of `ledger`, without the help of a snapshot."""
    state = State(goal_id=goal)
    for row in ledger.read(goal):
        apply(state, decode(row.body), row.seq)
    return state
