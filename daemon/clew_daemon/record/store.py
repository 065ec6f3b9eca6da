"""Loading states from the ledger: the last stored one, and the events after it."""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Protocol

from clew_daemon.record.goal_view import LeftOut
from clew_shared.ledger.errors import LedgerCorrupt
from clew_shared.ledger.reader import EventRow, ReadSide
from clew_shared.record import events as ev
from clew_shared.record.codec import OUTLINE_VERSION, STATE_VERSION, decode, decompress, outline
from clew_shared.record.fold import EventFold, Found, apply, fold
from clew_shared.record.model import GoalStatus
from clew_shared.record.state import State
from clew_shared.views.publish import HistoryFold, View, history_view

# Events of a goal: the most that a start has to replay of one that has not ended.
STORED_EVERY = 1_000
FOLLOWING_MAX = 500  # events of a goal after an action that are searched for its end
DAMAGED = "[this output is damaged in the ledger and cannot be shown; see `clew verify`]"


class ReadableEvents(Protocol):
    """A ledger or a reader, or a part of one, of which a goal's events and their outputs can be read."""

    def read(self, goal: str, after: int = 0, limit: int | None = None) -> Iterator[EventRow]: ...
    def output(self, seq: int) -> bytes | None: ...


def load_state(ledger: ReadSide, goal: str) -> State:
    """Return a goal's state as of its last recorded event."""
    return replayed(ledger, goal)[0]


def replayed(ledger: ReadSide, goal: str) -> tuple[State, int]:
    """Return a goal's state as of its last recorded event, and how many events came after the stored one."""
    found = ledger.latest_snapshot(goal, STATE_VERSION)
    state, after = (decompress(found[1]), found[0]) if found else (State(goal_id=goal), 0)
    events = 0
    for row in ledger.read(goal, after):
        apply(state, decode(row.body), row.seq)
        events += 1
    return state, events


def load_outlined(ledger: ReadSide) -> dict[str, State]:
    """Return the outlines of settled goals that have no event since, by goal in the order of acceptance."""
    found = ledger.last_snapshots(OUTLINE_VERSION).values()
    return in_order(outline(decompress(state)) for state in found)  # so that they share empty parts


def load_listed(ledger: ReadSide) -> dict[str, State]:
    """Return the states of all goals in the order of acceptance: outlines of those that are settled."""
    goals, over = ledger.goals(), load_outlined(ledger)
    return in_order([*over.values(), *(load_state(ledger, g) for g in goals if g not in over)])


def listed(states: Iterable[State], limit: int | None) -> tuple[list[State], LeftOut]:
    """Return all goals that have not ended and the last `limit` of the others (None: all), and what is left out.

    They are in the order of acceptance; goals that were removed from the lists are left out and not counted.
    """
    inside = [s for s in states if not s.removed]
    over = [s for s in inside if s.ended]
    out = {
        s.goal_id: s.goal.status for s in over[: 0 if limit is None else max(0, len(over) - limit)]
    }
    failed = list(out.values()).count(GoalStatus.FAILED)
    left_out = LeftOut(more=bool(out), left_out=len(out), left_out_failed=failed)
    return [s for s in inside if s.goal_id not in out], left_out


def in_order(states: Iterable[State]) -> dict[str, State]:
    """Return states by goal in the order of acceptance; of two of one goal, the later in `states`."""
    return {s.goal_id: s for s in sorted(states, key=lambda s: s.accepted_seq)}


def catch_up(fold: EventFold[Found], ledger: ReadableEvents, goal: str) -> Iterator[Found]:
    """Let a fold take in a goal's events after its last one; yields what it finds, as it is found."""
    for row in ledger.read(goal, fold.seq):
        if row.kind in fold.kinds and (found := fold.take(row.seq, decode(row.body))):
            yield found


def history_lines(ledger: ReadableEvents, goal: str, fold: HistoryFold) -> Iterator[View]:
    """Yield the lines of history.jsonl that follow the fold's last event, oldest first."""
    for action, of in catch_up(fold, ledger, goal):
        yield history_view(action, output_text(ledger, of))


def output_of(ledger: ReadableEvents, goal: str, action: int) -> str | None:
    """Return the output of an action by the action's number, None if there is none; of one cut off what is known."""
    end = end_of(ledger, goal, action)
    if end is None:
        return None
    text = output_text(ledger, end.seq)
    return text if text or end.kind == "action_finished" else None


def end_of(ledger: ReadableEvents, goal: str, action: int) -> EventRow | None:
    """Return the event that an action ended with, None if it is not found."""
    for row in ledger.read(goal, action, FOLLOWING_MAX):
        if row.kind in ("action_finished", "action_interrupted"):
            event = decode(row.body)
            if isinstance(event, ev.ActionFinished | ev.ActionInterrupted) and event.of == action:
                return row
    return None


def output_text(ledger: ReadableEvents, seq: int) -> str:
    """Return the output that is stored with an event, DAMAGED in place of a damaged one."""
    try:
        return (ledger.output(seq) or b"").decode("utf-8", "replace")
    except LedgerCorrupt:
        return DAMAGED


class PastEvents:
    """The events of a ledger up to one of them, for the prompt of an earlier turn."""

    def __init__(self, ledger: ReadableEvents, until: int) -> None:
        self._ledger, self._until = ledger, until

    def read(self, goal: str, after: int = 0, limit: int | None = None) -> Iterator[EventRow]:
        rows = self._ledger.read(goal, after, limit)
        return takewhile(lambda row: row.seq <= self._until, rows)

    def output(self, seq: int) -> bytes | None:
        return self._ledger.output(seq)


def state_of(ledger: ReadableEvents, goal: str) -> State:
    """Return a goal's state after all events of `ledger`, without the help of a stored one."""
    return fold(((row.seq, decode(row.body)) for row in ledger.read(goal)), State(goal_id=goal))
