"""The life of `clew herald`: its parts are put together, and events become pages of its book until it is stopped."""

from __future__ import annotations

import threading
import time

import apsw
import structlog

from clew_daemon.herald import spans
from clew_daemon.herald.alerts import Alerts
from clew_daemon.herald.book import Book, Page
from clew_daemon.herald.channels import Senders
from clew_daemon.herald.folding import Folding
from clew_daemon.herald.health_file import HealthFile
from clew_daemon.herald.notices import Notice
from clew_daemon.herald.reading import EventStream, all_events, catch_up, is_of
from clew_daemon.inbox.leftovers import left
from clew_daemon.reading.instance import Instance
from clew_shared.config.settings import NotifySettings
from clew_shared.ledger import Cursor, LedgerError

log = structlog.get_logger()

POLL_S = 0.5
ALONE_S = 1.0
"""The pause between two looks into the ledger while no daemon runs."""
OVERDUE_S = 5.0
TROUBLE_S = 5.0
HEALTH = "herald.json"
SINCE = "since"
"""The fact in the book: when the first herald began, before which nothing brings a message."""


class Herald:
    """Follows the ledger, and keeps the book; `tracer` is None where no spans are wanted."""

    def __init__(
        self, instance: Instance, book: Book, notify: NotifySettings, senders: Senders
    ) -> None:
        self._instance = instance
        self._book = book
        self._senders = senders
        self._channels = senders.channels
        self._health_file = HealthFile(instance.places.state / HEALTH)
        since = book.fact(SINCE)
        if since is None:
            since = repr(time.time())
            book.set_fact(SINCE, since)
        contents = instance.env.get(spans.CAPTURE, "").lower() == "true"
        self._folding = Folding(
            book, book.counters(), notify.on, since=float(since), contents=contents
        )
        self._messenger = senders.messenger(notify.quiet, self._is_outdated)
        self._tracer = senders.tracer()
        self._overdue_at = 0.0
        self.alerts = Alerts(
            lambda: instance.socket,
            lambda: left(instance.places.inbox),
            book,
            notify.on,
            self._tell,
        )

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""
        self._messenger.begin()
        self.alerts.begin()
        if self._tracer:
            self._tracer.begin()
        trouble = ""
        while not stop.is_set():
            try:
                self._catch_up()
                self._follow(stop)
                trouble = ""
                stop.wait(POLL_S)
            except (LedgerError, apsw.Error) as error:
                if str(error) != trouble:
                    log.error("herald.held", reason=str(error))  # noqa: TRY400 - a reason
                    trouble = str(error)
                self._folding.begin_again(self._book.counters())
                stop.wait(TROUBLE_S)

    def _catch_up(self) -> None:
        """Take the events that were recorded while no herald ran; of another ledger only the state of its goals."""
        ledger, cursor = self._instance.ledger, self._book.cursor
        if cursor is not None and not is_of(ledger, cursor):
            log.warning("ledger.replaced")
            self._store(self._folding.rebuilt(*all_events(ledger)))
            return
        for events, after in catch_up(ledger, cursor):
            self._store(self._folding.page(events, after))

    def _follow(self, stop: threading.Event) -> None:
        """Take events as they are recorded, until the ledger must be looked at as a whole."""
        stream = EventStream(lambda: self._instance.socket, self._instance.ledger, self._cursor)
        try:
            while not stop.is_set() and (batches := stream.poll(POLL_S)) is not None:
                for events, after in batches:
                    self._store(self._folding.page(events, after))
                if time.monotonic() > self._overdue_at:
                    self._overdue_at = time.monotonic() + OVERDUE_S
                    self._look_around()
                if not stream.is_streaming and not batches:
                    stop.wait(ALONE_S)
        finally:
            stream.close()

    def _look_around(self) -> None:
        """Do what no event brings: messages about long waits, and what the doctor reads."""
        overdue = self._folding.overdue(self._cursor, time.time())
        if overdue.notices:
            self._store(overdue)
        try:
            self._health_file.write(self._senders.health.health())
        except OSError as error:
            log.debug("herald.health_file", reason=str(error))

    @property
    def _cursor(self) -> Cursor:
        return self._book.cursor or Cursor()

    def _store(self, page: Page) -> None:
        self._book.store(page, self._channels, spans=self._tracer is not None)
        if page.notices:
            self._messenger.wake()
        if page.spans and self._tracer:
            self._tracer.wake()

    def _tell(self, notice: Notice) -> None:
        try:
            self._book.add_message(notice, self._channels)
        except apsw.Error:  # the full disk that this may be about
            self._messenger.send_unrecorded(notice)
        self._messenger.wake()

    def _is_outdated(self, notice: Notice) -> bool:
        """Return whether what a message says no longer holds."""
        if notice.kind == "daemon_down":
            return self.alerts.health is not None
        if not notice.goal or notice.kind in ("completed", "failed"):
            return False
        return self._book.goal(notice.goal).note.first_seq != notice.seq
