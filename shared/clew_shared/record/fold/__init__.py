"""State is a fold of the ledger: `apply` takes one event into a state, and nothing else ever changes one.

Pure and without rules: an event states what was decided, and here is only what follows from it. The fold sees no
clock, no settings and no process, so that a replay gives the same state on any machine, at any time. An event is taken
in by the function that bears the name of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from clew_shared.record import events as ev
from clew_shared.record.codec import GOAL_EVENTS
from clew_shared.record.fold import actions, goal, loops, tree, turns
from clew_shared.record.state import State

__all__ = ["apply", "fold"]

_FOR_READERS_ONLY = frozenset(("worker_ready", "task_completed", "finish_questioned"))


def fold(rows: Iterable[tuple[int, ev.Event]], state: State | None = None) -> State:
    """Return the state that recorded events lead to, oldest first; `state` is changed in place."""
    state = state or State()
    for seq, event in rows:
        apply(state, event, seq)
    return state


def apply(state: State, event: ev.Event, seq: int) -> State:
    """Take event number `seq` into the state, in place, and return the state."""
    if take := TABLE[event.kind]:
        take(state, event, seq)
    state.seq = seq
    state.updated_at = max(state.updated_at, event.at)
    return state


_TAKES = {
    name: function
    for part in (actions, goal, loops, tree, turns)
    for name, function in vars(part).items()
    if getattr(function, "__module__", "") == part.__name__
}
TABLE: dict[str, Callable[[State, Any, int], None] | None] = {
    event.kind: None if event.kind in _FOR_READERS_ONLY else _TAKES[event.kind]
    for event in GOAL_EVENTS
}
