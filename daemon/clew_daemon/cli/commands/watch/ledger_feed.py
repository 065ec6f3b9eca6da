"""The watched goals as the ledger has them: their states, and feed entries for events as they become durable."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from clew_daemon.cli.commands.watch.feed import FeedEntry, advance, note, past_entry, status_entry
from clew_daemon.cli.errors import CliError
from clew_daemon.cli.queries import WAITS_FOR_DAEMON, waits_in
from clew_daemon.record.pages import event_at
from clew_daemon.record.store import load_listed, load_state
from clew_shared.ledger import Follower, LedgerError
from clew_shared.record import events as ev
from clew_shared.record.codec import decode
from clew_shared.record.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew_daemon.cli.instance import Instance
    from clew_shared.ledger import EventRow, Reader

UNREADABLE_S = 5.0
RECENT_ACTIONS = 5
REPLACED = "the ledger was replaced; this is what it says now"


class LedgerFeed:
    """Follows the ledger; `goals` are the ids to watch, none for all.

    `announced_waits` has what a queued goal waits for, as the last entry on it says.
    """

    def __init__(self, instance: Instance, goals: Sequence[str], *, attach: bool) -> None:
        self._instance = instance
        self._goals = goals
        self._attach = attach
        self._follower = Follower(instance.ledger)
        self._read_at = time.monotonic()
        self._has_begun = self._was_replaced = False
        self.states: dict[str, State] = {}
        self.announced_waits: dict[str, str] = {}

    def close(self) -> None:
        """Close the ledger."""
        self._follower.close()

    def read(self) -> list[FeedEntry]:
        """Return entries for new events; CliError if the ledger cannot be read for `UNREADABLE_S`."""
        try:
            rows = self._follower.look()
            reader = self._follower.reader
            entries = [] if reader is None else self._entries(reader, rows)
        except LedgerError as error:
            if time.monotonic() - self._read_at > UNREADABLE_S:
                raise CliError(str(error)) from None
            return []
        self._read_at = time.monotonic()
        return entries

    def _entries(self, reader: Reader, rows: list[EventRow]) -> list[FeedEntry]:
        if self._follower.was_reset:
            self._has_begun, self._was_replaced = False, True
        entries = [] if self._has_begun else self._begin(reader)
        if self._was_replaced:
            entries.insert(0, note("ledger.reset", REPLACED))
        self._has_begun, self._was_replaced = True, False
        for row in rows:
            if row.goal and (not self._goals or row.goal in self._goals):
                entries += self._advance(reader, row)
        return entries

    def _begin(self, reader: Reader) -> list[FeedEntry]:
        """Load the goals to watch, and return entries on their past and on their status."""
        if not self._goals:
            self.states = {g: s for g, s in load_listed(reader, 0, None).items() if not s.ended}
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

    def _advance(self, reader: Reader, row: EventRow) -> list[FeedEntry]:
        """Fold an event into its goal's state, and return its entry."""
        state = self.states.get(row.goal)
        if state is None:
            if row.kind != "goal_accepted":  # a goal that had ended goes on
                state = self.states[row.goal] = load_state(reader, row.goal)
                return [status_entry(state)]
            state = self.states[row.goal] = State(goal_id=row.goal)
        if row.seq <= state.seq:
            return []
        try:
            event = decode(row.body)
        except ValueError:
            raise CliError(
                f"event {row.seq} was recorded by another version of clew: start `clew watch` again"
            ) from None
        entry = advance(state, event, row.seq)
        return [entry] if entry else []


def _from_start(reader: Reader, goal: str) -> tuple[State, list[FeedEntry]]:
    """Return a goal's state, and entries for all of its events."""
    state = State(goal_id=goal)
    entries = [advance(state, decode(row.body), row.seq) for row in reader.read(goal)]
    return state, [entry for entry in entries if entry]


def _recent_actions(reader: Reader, goal: str) -> tuple[State, list[FeedEntry]]:
    """Return a goal's state, and entries for the ends of its last actions and for those that run."""
    state = load_state(reader, goal)
    found: list[FeedEntry | None] = []
    for seq in sorted([*reader.ends(goal, state.seq + 1, RECENT_ACTIONS), *state.in_flight]):
        event = event_at(reader, goal, seq)
        if event is None:
            continue
        of = getattr(event, "of", 0)
        began = event_at(reader, goal, of) if of else None
        name = began.signature if isinstance(began, ev.ActionAllowed | ev.ActionBlocked) else ""
        found.append(past_entry(goal, seq, event, name))
    return state, [entry for entry in found if entry]
