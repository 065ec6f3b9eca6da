"""State is a fold of the ledger: `apply` takes one event into a state, and nothing else ever changes one.

It sees no clock, no settings and no process: a replay gives the same state on any machine, at any time. What else is
computed from a goal's events is an `EventFold`.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, TypeVar

from clew_shared.record.events import Event
from clew_shared.record.state import State

Found = TypeVar("Found")
_Method = TypeVar("_Method", bound=Callable[..., Any])


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


def takes(*events: type[Event]) -> Callable[[_Method], _Method]:
    """Mark a method of an EventFold as the one that takes in these events, each with its number."""

    def mark(method: _Method) -> _Method:
        vars(method)["takes"] = events
        return method

    return mark


class EventFold(Generic[Found]):
    """Takes in a goal's events, oldest first; `seq` is the last one, `kinds` are those that a reader must decode."""

    kinds: ClassVar[frozenset[str]] = frozenset()
    _methods: ClassVar[dict[type[Event], Callable[[Any, int, Any], Any]]] = {}

    def __init_subclass__(cls) -> None:
        methods = ((method, getattr(method, "takes", ())) for method in vars(cls).values())
        cls._methods = {event: method for method, events in methods for event in events}
        cls.kinds |= frozenset(event.kind for event in cls._methods)

    def __init__(self, after: int = 0) -> None:
        self.seq = after

    def take(self, seq: int, event: Event) -> Found | None:
        """Take in the next event; returns what it brought to light, if anything."""
        self.seq = seq
        method = self._methods.get(type(event))
        found: Found | None = method(self, seq, event) if method else None
        return found
