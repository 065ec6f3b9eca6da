"""From events to a page of the book: what they count, what they complete, and what a person must be told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from clew_daemon.herald import notices
from clew_daemon.herald.book import Page
from clew_daemon.herald.counters import counted
from clew_shared.record.codec import decode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from clew_daemon.herald.book import Book, GoalEntry
    from clew_daemon.herald.counters import Counters
    from clew_daemon.herald.notices import Notice
    from clew_shared.ledger import Cursor

FORGOTTEN = "goal_forgotten"


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """A durable event: its number, its goal ("" for the daemon's own), and its JSON."""

    seq: int
    goal: str
    body: bytes


class Folding:
    """Takes events, and makes the pages of a book.

    `on` are the kinds of messages that are wanted; `contents` lets arguments and outputs into spans.
    """

    def __init__(
        self, book: Book, counters: Counters, on: Collection[str], *, contents: bool
    ) -> None:
        self._book = book
        self._counters = counters
        self._on = on
        self._contents = contents
        self.unreadable = 0
        """Events of a later clew, which were passed over."""

    def page(
        self, events: Iterable[SeenEvent], after: Cursor, *, told: bool = True
    ) -> Page:
        """Return what events lead to; with `told` that includes messages."""
        page = Page(after)
        for seen in events:
            self._take(page, seen, told=told)
        page.counters = self._counters.take_changed()
        return page

    def rebuilt(self, events: Iterable[SeenEvent], after: Cursor) -> Page:
        """Return a page with what is known of all goals of another ledger; nothing of it is counted or completed."""
        page = Page(after, from_scratch=True)
        fresh = Folding(self._book, type(self._counters)({}), (), contents=self._contents)
        for seen in events:
            fresh._take(page, seen, told=False)  # noqa: SLF001 - its own kind
            page.spans.clear()
        return page

    def missed(self, page: Page, since: float, *, blocked: bool = False) -> list[Notice]:
        """Return the messages about states that goals of a page reached after `since`; `blocked`: or earlier."""
        found = [
            notices.of_state(goal, entry.note, self._on)
            for goal, entry in page.goals.items()
            if entry.note.at > since or (blocked and entry.note.needs_person)
        ]
        return [notice for notice in found if notice is not None]

    def _take(self, page: Page, seen: SeenEvent, *, told: bool) -> None:
        if not seen.goal:
            self._take_daemons(page, seen)
            return
        try:
            event = decode(seen.body)
        except ValidationError:
            self.unreadable += 1
            return
        entry = self._entry(page, seen.goal)
        before = entry.note.seq
        entry.note.advance(event, seen.seq)
        for series, count in counted(event, entry.note):
            self._counters.add(series, count)
        page.spans += entry.trace.advance(event, seen.seq, contents=self._contents)
        if told and entry.note.seq != before:
            notice = notices.of_state(seen.goal, entry.note, self._on)
            page.notices += [notice] if notice else []

    def _entry(self, page: Page, goal: str) -> GoalEntry:
        page.forgotten.discard(goal)
        if goal not in page.goals:
            page.goals[goal] = self._book.goal(goal, fresh=page.from_scratch)
        return page.goals[goal]

    def _take_daemons(self, page: Page, seen: SeenEvent) -> None:
        if FORGOTTEN.encode() not in seen.body:
            return
        event = json.loads(seen.body)
        if event.get("kind") == FORGOTTEN:
            page.goals.pop(event["goal"], None)
            page.forgotten.add(event["goal"])
