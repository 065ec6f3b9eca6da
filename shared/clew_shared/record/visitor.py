"""What walks a goal's events: a fold with one method for each kind that it takes in, whatever it computes from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from clew_shared.record.events import Event

Found = TypeVar("Found")
_Method = TypeVar("_Method", bound="Callable[..., Any]")


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
