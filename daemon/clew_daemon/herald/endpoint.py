"""What the metrics show now, and the address that serves them."""

from __future__ import annotations

from pathlib import Path

import structlog

from clew_daemon.herald.alerts import Alerts, DaemonHealth, ask_health
from clew_daemon.herald.book import Book
from clew_daemon.herald.exposition import Readings, render
from clew_daemon.herald.folding import Folding
from clew_daemon.herald.reading import all_events, catch_up, is_of
from clew_daemon.herald.server import Answers, MetricsServer
from clew_daemon.herald.spools import Channels
from clew_daemon.reading.instance import Instance
from clew_shared.ledger import LedgerEmpty, LedgerError, Reader


def readings(book: Book, health: DaemonHealth | None) -> Readings:
    """Return what a book says now."""
    waits = sum(note.needs_person for note in book.unsettled().values())
    channels = Channels(book.database).health()
    return Readings(book.statuses(), waits, book.counters().values, health, channels)


def readings_once(instance: Instance, path: Path) -> Readings:
    """Return what a herald would say now: its book at `path`, if there is one, and the events since.

    The book is not changed. Raises BookError, or LedgerError.
    """
    book = Book.copied(path) if path.exists() else Book.open(None)
    try:
        _complete(book, instance.ledger)
        found = ask_health(instance.socket)
        return readings(book, found if isinstance(found, DaemonHealth) else None)
    finally:
        book.close()


def _complete(book: Book, ledger: Path) -> None:
    folding = Folding(book, book.counters(), ())
    if book.cursor is not None and not is_of(ledger, book.cursor):
        book.store(folding.rebuilt(*all_events(ledger)), (), spans=False)
        return
    for events, after in catch_up(ledger, book.cursor):
        book.store(folding.page(events, after), (), spans=False)


log = structlog.get_logger()


def serve(listen: str, ledger: Path, book: Book, alerts: Alerts) -> MetricsServer:
    """Serve metrics on "HOST:PORT"; raises PortTakenError."""
    host, _, port = listen.rpartition(":")
    answers = Answers(
        lambda accept: render(readings(book, alerts.health), accept), lambda: _unready(ledger)
    )
    server = MetricsServer(host.strip("[]"), int(port), answers)
    server.begin()
    log.info("herald.ready", metrics=f"http://{host}:{server.port}/metrics")
    return server


def _unready(ledger: Path) -> str:
    """Return why the ledger does not answer, "" if it does; one that does not exist yet has no goals."""
    if not ledger.exists():
        return ""
    try:
        with Reader.open(ledger) as reader:
            reader.last_seq()
    except LedgerEmpty:
        return ""
    except LedgerError as error:
        return str(error)
    return ""
