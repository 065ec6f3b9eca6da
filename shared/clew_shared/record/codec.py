"""Events as the JSON that the ledger keeps, and back: every event class is found by its `kind`."""

import re
from collections.abc import Mapping
from typing import TypeVar

from clew_shared.record.daemon_events import PlaybookEvent
from clew_shared.record.events import Event, GoalEvent

GOAL_EVENTS = tuple(GoalEvent.__subclasses__())

_Event = TypeVar("_Event", bound=Event)
_KIND = re.compile(rb'\{\s*"kind"\s*:\s*"([a-z_]+)"')
_goal_events = {event.kind: event for event in GOAL_EVENTS}
_playbook_events = {event.kind: event for event in PlaybookEvent.__subclasses__()}


def encode(event: Event) -> bytes:
    """Return an event as JSON: the kind comes first, fields at their defaults are left out."""
    body = event.model_dump_json(exclude_defaults=True)
    head = f'{{"kind":"{event.kind}"'
    return (head + ("}" if body == "{}" else "," + body[1:])).encode()


def decode(body: bytes) -> GoalEvent:
    """Return the event of a goal; raises ValueError if the JSON is anything else."""
    return _decoded(body, _goal_events)


def decode_playbook(body: bytes) -> PlaybookEvent:
    return _decoded(body, _playbook_events)


def _decoded(body: bytes, known: Mapping[str, type[_Event]]) -> _Event:
    found = _KIND.match(body)
    kind = found[1].decode() if found else ""
    if kind not in known:
        raise ValueError(f"an event of an unknown kind: {kind or body[:40]!r}")
    return known[kind].model_validate_json(body)
