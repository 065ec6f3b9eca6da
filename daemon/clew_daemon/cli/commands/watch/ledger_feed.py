"""The watched goals as the ledger has them: their states, and feed entries for events as they become durable.

The past is read from the ledger; what comes after it arrives on the daemon's stream, or from the ledger while no daemon
runs.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from clew_daemon.cli.commands.watch.feed import FeedEntry, advance, note, past_entry, status_entry
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.follow import EventSource, StreamBatch, StreamBegin
from clew_daemon.reading.queries import WAITS_FOR_DAEMON, waits_in
from clew_daemon.record.pages import event_at
from clew_daemon.record.store import load_listed, load_state
from clew_shared.ledger import Cursor, LedgerEmpty, LedgerError, Reader
from clew_shared.record.codec import decode
from clew_shared.record.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from clew_daemon.reading.follow import StreamEvent, StreamNews
    from clew_daemon.reading.instance import Instance

UNREADABLE_S = 5.0
POLLS_MAX = 20
"""How much of what has arrived is shown before the view is drawn again."""
RECENT_ACTIONS = 5
REPLACED = "the ledger was replaced; this is what it says now"


class LedgerFeed:
    """The feed of some goals; `goals` are the ids to watch, none for all.

    `announced_waits` has what a queued goal waits for, as the last entry on it says.
    """

    def __init__(self, instance: Instance, goals: Sequence[str], *, attach: bool) -> None:
        self._instance = instance
        self._goals = goals
        self._attach = attach
        self._source: EventSource | None = None
        self._read_at = time.monotonic()
        self.states: dict[str, State] = {}
        self.announced_waits: dict[str, str] = {}

    def close(self) -> None:
        """Close the stream and the ledger."""
        if self._source is not None:
            self._source.close()

    def read(self) -> list[FeedEntry]:
        """Return entries for new events; CliError if the ledger cannot be read for `UNREADABLE_S`."""
        try:
            entries = self._past() if self._source is None else self._arrived(self._source)
        except LedgerError as error:
            if time.monotonic() - self._read_at > UNREADABLE_S:
                raise CliError(str(error)) from None
            return []
        self._read_at = time.monotonic()
        return entries

    def _past(self) -> list[FeedEntry]:
        """Return entries on the goals so far, and follow from there on; nothing while there is no ledger."""
        with self._ledger() as reader:
            if reader is None:
                return []
            after = str(Cursor.at_end(reader))
            entries = self._begin(reader)
        instance = self._instance
        self._source = EventSource(lambda: instance.socket, instance.ledger, after)
        return entries

    def _arrived(self, source: EventSource) -> list[FeedEntry]:
        """Return entries for what has arrived, as much as is shown at once."""
        entries: list[FeedEntry] = []
        for _ in range(POLLS_MAX):
            news = source.poll(0.0)
            entries += [entry for one in news for entry in self._entries(one)]
            if not news:
                break
        return entries

    def _entries(self, news: StreamNews) -> list[FeedEntry]:
        if isinstance(news, StreamBegin):
            return self._begin_again() if news.reset else []
        if not isinstance(news, StreamBatch):
            return []
        watched = (
            one for one in news.events if one.goal and one.goal in (self._goals or [one.goal])
        )
        return [entry for one in watched for entry in self._advance(one)]

    def _begin_again(self) -> list[FeedEntry]:
        with self._ledger() as reader:
            past = [] if reader is None else self._begin(reader)
        return [note("ledger.reset", REPLACED), *past]

    @contextmanager
    def _ledger(self) -> Iterator[Reader | None]:
        """Open the ledger, None where there is none yet; raises LedgerError."""
        try:
            reader = Reader.open(self._instance.ledger) if self._instance.ledger.exists() else None
        except LedgerEmpty:  # a first start is making it
            reader = None
        with reader or nullcontext():
            yield reader

    def _begin(self, reader: Reader) -> list[FeedEntry]:
        """Load the goals to watch, and return entries on their past and on their status."""
        if not self._goals:
            self.states = {g: s for g, s in load_listed(reader).items() if not s.ended}
            return self._status_entries(reader, list(self.states))
        entries: list[FeedEntry] = []
        for goal in self._goals:
            load = _recent_actions if self._attach else _from_start
            self.states[goal], past = load(reader, goal)
            if not self.states[goal].seq:
                raise CliError(f"{goal} is not in the ledger any more")
            entries += past
        entries.sort(key=lambda entry: entry.seq)
        return entries + (self._status_entries(reader, self._goals) if self._attach else [])

    def _status_entries(self, reader: Reader, goals: Sequence[str]) -> list[FeedEntry]:
        """Return entries on the status of goals, with what the queued ones wait for as far as the ledger tells."""
        waits = waits_in(reader, self.states.values(), time.time())
        if self._instance.holder is not None:  # a running daemon knows better
            waits = {goal: why for goal, why in waits.items() if why != WAITS_FOR_DAEMON}
        self.announced_waits.update(waits)
        return [status_entry(self.states[goal], waits.get(goal, "")) for goal in goals]

    def _advance(self, found: StreamEvent) -> list[FeedEntry]:
        """Fold an event into its goal's state, and return its entry."""
        state = self.states.get(found.goal)
        if state is None:
            if found.kind != "goal_accepted":  # a goal that had ended goes on
                return self._continued(found.goal)
            state = self.states[found.goal] = State(goal_id=found.goal)
        if found.seq <= state.seq:
            return []
        try:
            event = decode(found.body)
        except ValueError:
            raise CliError(
                f"event {found.seq} was recorded by another version of clew: start `clew watch` again"
            ) from None
        entry = advance(state, event, found.seq)
        return [entry] if entry else []

    def _continued(self, goal: str) -> list[FeedEntry]:
        """Return an entry on the status of a goal that was not watched so far."""
        with self._ledger() as reader:
            if reader is None:
                return []
            state = self.states[goal] = load_state(reader, goal)
        return [status_entry(state)]


def _from_start(reader: Reader, goal: str) -> tuple[State, list[FeedEntry]]:
    """Return a goal's state, and entries for all of its events."""
    state = State(goal_id=goal)
    entries = [advance(state, decode(row.body), row.seq) for row in reader.read(goal)]
    return state, [entry for entry in entries if entry]


ENDS = ("action_finished", "action_blocked", "action_interrupted")


def _recent_actions(reader: Reader, goal: str) -> tuple[State, list[FeedEntry]]:
    """Return a goal's state, and entries for the ends of its last actions and for those that run."""
    state = load_state(reader, goal)
    found: list[FeedEntry | None] = []
    ends = [row.seq for row in reader.read(goal) if row.kind in ENDS][-RECENT_ACTIONS:]
    for seq in sorted([*ends, *state.in_flight]):
        event = event_at(reader, goal, seq)
        if event is None:
            continue
        of = getattr(event, "of", 0)
        began = event_at(reader, goal, of) if of else None
        found.append(past_entry(goal, seq, event, began))
    return state, [entry for entry in found if entry]
