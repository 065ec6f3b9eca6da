"""Events as the JSON that the ledger keeps; a state as JSON: whole, compressed, or as the outline of a settled goal."""

import re
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from clew_shared.record.daemon_events import PlaybookEvent
from clew_shared.record.events import Event, GoalEvent
from clew_shared.record.model import Subtask
from clew_shared.record.scope import Scope
from clew_shared.record.state import AttemptState, State

GOAL_EVENTS = tuple(GoalEvent.__subclasses__())

_Event = TypeVar("_Event", bound=Event)
_KIND = re.compile(rb'\{\s*"kind"\s*:\s*"([a-z_]+)"')
_goal_events = {event.kind: event for event in GOAL_EVENTS}
_playbook_events = {event.kind: event for event in PlaybookEvent.__subclasses__()}


def encode(event: Event) -> bytes:
    """Return an event as JSON: the kind comes first, fields at their defaults are left out."""
    body = event.__pydantic_serializer__.to_json(event, exclude_defaults=True)
    head = b'{"kind":"%s"' % event.kind.encode()
    return head + (b"}" if body == b"{}" else b"," + body[1:])


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


STATE_VERSION = 30
"""The version of the stored states' form: one of another version is not read, and the ledger is folded instead.

Raise it once per release in which folding the same events gives another state: a new field that old events fill, an
`into` that changed.
"""

OUTLINE_VERSION = -STATE_VERSION  # of a stored state that is only the outline of a settled goal


@cache
def _states() -> TypeAdapter[State]:
    return TypeAdapter(State)  # built at its first use: the command line would feel the time


def dump(state: State) -> bytes:
    return _states().dump_json(state, exclude_defaults=True)


def load(body: bytes) -> State:
    return _states().validate_json(body)


def compressed(dumped: bytes) -> bytes:
    """Return a dumped state as it is stored, at about a tenth of the size; made for a thread."""
    return zlib.compress(dumped, 1)


def decompress(body: bytes) -> State:
    """Return a stored state; raises ValueError if it is none."""
    try:
        return load(zlib.decompress(body))
    except zlib.error as error:
        raise ValueError(str(error)) from error


def as_dict(state: State) -> dict[str, Any]:
    return _states().dump_python(state, mode="json")  # type: ignore[no-any-return]


_EMPTY, _SUBTASK = State(), Subtask("")


def outline(state: State) -> State:
    """Return what is needed of a settled goal from day to day: its place in lists and queues, and its tree's statuses.

    It is no fold of the goal's events. Empty parts are shared by all outlines: thousands may be in memory.
    """
    tasks = [
        replace(
            t,
            subtasks=[
                replace(_SUBTASK, description=s.description, status=s.status) for s in t.subtasks
            ],
        )
        for t in state.goal.tasks
    ]
    number, told, proofs, loops = state.attempt.number, state.guidance, state.proofs, state.loops
    judged = replace(_EMPTY.loops, blocked_total=loops.blocked_total, found_total=loops.found_total)
    if loops.scope.blocks:
        judged.scope = Scope(blocks=loops.scope.blocks)
    return replace(
        state,
        goal=replace(state.goal, tasks=tasks),
        spec=state.spec.model_copy(update={"notes": "", "done_when": "", "checks": {}}),
        plan=replace(state.plan, set_aside=[], covered=[]),
        loops=judged,
        attempt=AttemptState(number) if number > 1 else _EMPTY.attempt,
        attempts=replace(state.attempts, fresh_starts=[], reruns=[]),
        proofs=replace(_EMPTY.proofs, before=proofs.before, made=proofs.made, base=proofs.base),
        guidance=replace(_EMPTY.guidance, feedback_seq=told.feedback_seq),
    )
