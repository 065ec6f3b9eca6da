"""The metrics of a running herald on its address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from clew_daemon.herald.exposition import render
from clew_daemon.herald.readings import readings
from clew_daemon.herald.server import Answers, MetricsServer
from clew_shared.ledger import LedgerEmpty, LedgerError, Reader

if TYPE_CHECKING:
    from pathlib import Path

    from clew_daemon.herald.alerts import Alerts
    from clew_daemon.herald.book import Book

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
