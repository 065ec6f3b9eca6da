"""From events to a page of the book: what they count, what they complete, and what a person must be told."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

from pydantic import ValidationError

from clew_daemon.herald import notices
from clew_daemon.herald.book import Book, GoalEntry, Page
from clew_daemon.herald.counters import Counters, counted
from clew_daemon.herald.notices import Notice
from clew_daemon.reading.follow import StreamEvent
from clew_shared.ledger import Cursor
from clew_shared.record.codec import decode

FORGOTTEN = "goal_forgotten"


class UnknownEventError(ValueError):
    """An event of a later clew; it is not passed over, and waits for the herald of that version."""


class Folding:
    """Takes events, and makes the pages of a book.

    `on` are the kinds of messages that are wanted; an event before `since` brings none. `contents` lets arguments and
    outputs into spans.
    """

    def __init__(
        self,
        book: Book,
        counters: Counters,
        on: Collection[str],
        *,
        since: float = 0.0,
        contents: bool = False,
    ) -> None:
        self._since = since
        self._book = book
        self._counters = counters
        self._on = on
        self._contents = contents

    def begin_again(self, counters: Counters) -> None:
        """Count from these values: the last page could not be stored, and its events come again."""
        self._counters = counters

    def page(self, events: Iterable[StreamEvent], after: Cursor) -> Page:
        """Return what events lead to; raises UnknownEventError."""
        page = Page(after)
        for seen in events:
            self._take(page, seen)
        page.counters = self._counters.take_changed()
        return page

    def rebuilt(self, events: Iterable[StreamEvent], after: Cursor) -> Page:
        """Return a page with what is known of all goals of another ledger; nothing of it is counted or completed."""
        page = Page(after, from_scratch=True)
        fresh = Folding(self._book, Counters({}), (), contents=self._contents)
        for seen in events:
            fresh._take(page, seen)
            page.spans.clear()
        for goal, entry in page.goals.items():
            old = self._book.goal(goal).note
            if (old.seq, old.at) == (entry.note.seq, entry.note.at):
                entry.note.told = old.told
        return page

    def overdue(self, after: Cursor, now: float) -> Page:
        """Return a page with messages that no event brings: of long waits, and of goals that were blocked before."""
        page = Page(after)
        for goal, note in self._book.unsettled().items():
            found = notices.of_wait(goal, note, now, self._on)
            if found is None and note.needs_person and note.told != note.first_seq:
                found = notices.of_state(goal, note, self._on)
            if found is not None:
                self._tell(page, found, self._entry(page, goal))
        return page

    def _take(self, page: Page, seen: StreamEvent) -> None:
        if not seen.goal:
            self._take_daemons(page, seen)
            return
        try:
            event = decode(seen.body)
        except ValidationError:
            raise UnknownEventError(
                f"event {seen.seq} was recorded by another version of clew: start clew herald again"
            ) from None
        entry = self._entry(page, seen.goal)
        before = entry.note.model_copy()
        entry.note.advance(event, seen.seq)
        for series, count in counted(event, entry.note):
            self._counters.add(series, count)
        page.spans += entry.trace.advance(event, seen.seq, contents=self._contents)
        if entry.note.is_as(before):
            entry.note.told = entry.note.first_seq if before.told == before.first_seq else 0
        elif event.at >= self._since:
            notice = notices.of_state(seen.goal, entry.note, self._on)
            if notice is not None:
                self._tell(page, notice, entry)

    def _tell(self, page: Page, notice: Notice, entry: GoalEntry) -> None:
        page.notices.append(notice)
        entry.note.told = entry.note.first_seq

    def _entry(self, page: Page, goal: str) -> GoalEntry:
        page.forgotten.discard(goal)
        if goal not in page.goals:
            page.goals[goal] = self._book.goal(goal, fresh=page.from_scratch)
        return page.goals[goal]

    def _take_daemons(self, page: Page, seen: StreamEvent) -> None:
        if seen.kind == FORGOTTEN:
            goal = str(json.loads(seen.body)["goal"])
            page.goals.pop(goal, None)
            page.forgotten.add(goal)
