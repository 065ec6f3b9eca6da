"""Events as the JSON that the ledger keeps, and back: every event class is found by its `kind`."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from clew_shared.record import snapshot_events  # noqa: F401 - defines its kinds
from clew_shared.record.daemon_events import PlaybookEvent
from clew_shared.record.events import Event, GoalEvent

GOAL_EVENTS = tuple(GoalEvent.__subclasses__())
PLAYBOOK_EVENTS = tuple(PlaybookEvent.__subclasses__())


def _adapter(models: tuple[type[Event], ...]) -> TypeAdapter[Any]:
    union: Any = Annotated[reduce(or_, models), Field(discriminator="kind")]
    return TypeAdapter(union)


_goal_events = _adapter(GOAL_EVENTS)
_playbook_events = _adapter(PLAYBOOK_EVENTS)


def encode(event: Event) -> bytes:
    """Return an event as JSON: fields at their defaults are left out, the kind never is."""
    body = event.model_dump_json(exclude_defaults=True)
    head = f'{{"kind":"{event.kind}"'
    return (head + ("}" if body == "{}" else "," + body[1:])).encode()


def decode(body: bytes) -> GoalEvent:
    """Return the event of a goal; raises `pydantic.ValidationError` if the JSON is anything else."""
    event: GoalEvent = _goal_events.validate_json(body)
    return event


def decode_playbook(body: bytes) -> PlaybookEvent:
    """Return the event of the playbook; raises as `decode` does."""
    event: PlaybookEvent = _playbook_events.validate_json(body)
    return event
