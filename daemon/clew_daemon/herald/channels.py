"""The channels of the herald: each is a thread with a cursor of its own, so that a slow one holds up no other."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from clew_daemon.herald import notices
from clew_daemon.herald.book import (
    Book,
    ChannelRecord,
    UnknownEventError,
    batches,
    continues,
    event_of,
    opened,
)
from clew_daemon.herald.notices import Notice
from clew_daemon.herald.senders import Sender, UndeliveredError
from clew_daemon.herald.situation import DAEMON, Situation
from clew_daemon.record.store import load_state
from clew_shared.backoff import backoff_s
from clew_shared.config.tables import NotifySettings
from clew_shared.ledger import Cursor, EventRow, LedgerError, Reader
from clew_shared.record import events as ev

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from clew_daemon.herald.spans import Collector, Trace

log = structlog.get_logger()

LOOK_S, BACKOFF_S, BACKOFF_MAX_S = 60.0, 1.0, 300.0
SAVE_S = 5.0
"""How far, at most, a cursor in the file is behind while nothing is to be delivered."""


class Channel(ABC):
    """What is common to channels: the thread, the cursor in the book, and the pauses after failures."""

    def __init__(self, key: str, label: str, book: Book, ledger: Path) -> None:
        self.key, self.label = key, label
        self._book, self._ledger = book, ledger
        self._wake = threading.Event()
        self._failures = 0
        self._save_at = 0.0
        with book.changing() as contents:
            self.record = contents.channels.setdefault(key, ChannelRecord())
            self.record.label = label

    def begin(self) -> None:
        """Start delivering."""

        def run() -> None:
            while True:
                self._wake.wait(self.step())
                self._wake.clear()

        threading.Thread(target=run, name=self.key, daemon=True).start()

    def wake(self) -> None:
        """Look for something new."""
        if not self._failures:
            self._wake.set()

    def step(self) -> float:
        """Deliver what waits; return for how many seconds there is nothing to do."""
        try:
            with opened(self._ledger) as reader:
                pause_s = self._deliver(reader)
        except UnknownEventError:  # the herald ends over it
            return BACKOFF_MAX_S
        except (UndeliveredError, LedgerError) as error:
            self._fails(str(error))
            return backoff_s(self._failures - 1, BACKOFF_S, BACKOFF_MAX_S)
        self._failures = 0
        return pause_s

    @abstractmethod
    def _deliver(self, reader: Reader | None) -> float: ...

    def _move(self, after: Cursor, *, delivered: bool) -> None:
        """Move the cursor; what was `delivered` is on record at once."""
        is_new, self.record.cursor = self.record.cursor != str(after), str(after)
        if delivered:
            self._works()
        elif is_new and time.monotonic() > self._save_at:
            with self._book.changing():
                self._save_at = time.monotonic() + SAVE_S

    def _works(self) -> None:
        with self._book.changing():
            self._failures = 0
            self.record.failing_since, self.record.error = None, ""

    def _fails(self, error: str) -> None:
        self._failures += 1
        if self.record.error != error:
            log.warning("delivery.failed", channel=self.label, reason=error)
        with self._book.changing():
            self.record.failing_since = self.record.failing_since or time.time()
            self.record.error = error


class Messages(Channel):
    """Messages to one address: of goals that have ended, and of what is so that a person should know."""

    def __init__(
        self, sender: Sender, book: Book, ledger: Path, notify: NotifySettings, situation: Situation
    ) -> None:
        super().__init__(sender.key, sender.label, book, ledger)
        self._send = sender.send
        self._notify, self._situation = notify, situation

    def _deliver(self, reader: Reader | None) -> float:
        until = notices.quiet_until(datetime.now().astimezone(), self._notify.quiet)
        if until is not None:
            return min(LOOK_S, until.timestamp() - time.time())
        first, after = self.record.cursor is None, Cursor.parse(self.record.cursor or "0-")
        if reader is not None and (first or not continues(reader, after)):
            self._move(Cursor.at_end(reader), delivered=True)
        elif reader is not None:
            self._ends(reader, after)
        elif first:
            self._move(Cursor(), delivered=True)
        self._tell_conditions()
        return LOOK_S

    def _ends(self, reader: Reader, after: Cursor) -> None:
        """Send the goals that have ended since, and move the cursor behind each."""
        for rows, end in batches(reader, after):
            for row in rows:
                if row.kind != "goal_ended" or not isinstance(ended := event_of(row), ev.GoalEnded):
                    continue
                found = notices.of_end(load_state(reader, row.goal), ended)
                if found is not None and self._is_sent(found):
                    self._move(Cursor(row.seq, row.hash), delivered=True)
                    self._log(found)
            self._move(end, delivered=False)

    def _tell_conditions(self) -> None:
        """Send the situation once; that the daemon is down only to a channel that has seen it up."""
        told, conditions = self.record.told, self._situation.conditions
        for topic, one in conditions.items():
            if told.get(topic) == one.key:
                continue
            wanted = one.notice if topic != DAEMON or topic in told else None
            is_sent = wanted is not None and self._is_sent(wanted)
            with self._book.changing():
                told[topic] = one.key
            if wanted is not None and is_sent:
                self._works()
                self._log(wanted)
        if gone := told.keys() - conditions.keys() - {DAEMON}:
            with self._book.changing():
                for topic in gone:
                    del told[topic]

    def _is_sent(self, notice: Notice) -> bool:
        """Send a message, if it is of a kind that is wanted; return whether it was. Raises UndeliveredError."""
        if notice.kind not in self._notify.on:
            return False
        self._send(notice)
        return True

    def _log(self, notice: Notice) -> None:
        """Log a message whose delivery is on record: a herald that is killed now does not send it again."""
        about = {"goal": notice.goal} if notice.goal else {}
        log.info("message.sent", channel=self.label, kind=notice.kind, **about)


class Traces(Channel):
    """Spans to an OpenTelemetry collector, which takes the same one twice."""

    def __init__(self, book: Book, ledger: Path, collector: Collector) -> None:
        super().__init__("otlp", f"OTLP, {collector.label}", book, ledger)
        self._collector = collector
        self._traces: dict[str, Trace] = {}

    def _deliver(self, reader: Reader | None) -> float:
        if reader is None:
            return LOOK_S
        after = Cursor.parse(self.record.cursor or "0-")
        if not continues(reader, after):
            self._traces.clear()
            after = Cursor.at_end(reader)
        for rows, end in batches(reader, after):
            spans = [span for row in rows if row.goal for span in self._completed(reader, row)]
            try:
                self._collector.send(spans)
            except UndeliveredError:
                self._traces.clear()  # they are ahead of the cursor
                raise
            self._move(end, delivered=bool(spans))
        return LOOK_S

    def _completed(self, reader: Reader, row: EventRow) -> list[ReadableSpan]:
        """Return the spans that an event completes; what came before of its goal is read if it is not known."""
        from clew_daemon.herald.spans import Trace

        trace = self._traces.get(row.goal)
        if trace is None:
            trace = self._traces[row.goal] = Trace(row.goal)
            for earlier in reader.read(row.goal):
                if earlier.seq >= row.seq:
                    break
                trace.advance(event_of(earlier), earlier.seq)
        found = trace.advance(event_of(row), row.seq)
        if trace.is_closed:
            del self._traces[row.goal]
        return found
