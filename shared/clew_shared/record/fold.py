"""State is a fold of the ledger: `apply` takes one event into a state, and nothing else ever changes one.

Pure and without rules: an event states what was decided, and its `into` is only what follows from it. It sees no
clock, no settings and no process, so that a replay gives the same state on any machine, at any time.
"""

from collections.abc import Iterable

from clew_shared.record.events import Event
from clew_shared.record.state import State


def fold(rows: Iterable[tuple[int, Event]], state: State | None = None) -> State:
    """Return the state that recorded events lead to, oldest first; `state` is changed in place."""
    state = state or State()
    for seq, event in rows:
        apply(state, event, seq)
    return state


def apply(state: State, event: Event, seq: int) -> State:
    """Take event number `seq` into the state, in place, and return the state."""
    state.seq = seq
    state.updated_at = max(state.updated_at, event.at)
    event.into(state)
    return state
