"""Follows the home in a thread, and says when something has changed, or that the daemon is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable

from clew_daemon.cli.instance import Instance
from clew_daemon.cli.stream.client import EventSource
from clew_daemon.cli.stream.messages import StreamBatch, StreamBegin, StreamGone, StreamNews
from clew_shared.ledger import LedgerError

POLL_S = 1.0
FAILED_S = 1.0


class LiveNews:
    """Follows all events; `changed` is called in the thread, with a note on the daemon where that has changed.

    The note is "" while a daemon runs.
    """

    def __init__(self, instance: Instance, changed: Callable[[str | None], None]) -> None:
        self._source = EventSource(lambda: instance.socket, instance.ledger)
        self._changed = changed
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="following", daemon=True)

    def begin(self) -> None:
        """Start following."""
        self._thread.start()

    def end(self) -> None:
        """Stop following, without waiting for the thread."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                for news in self._source.poll(POLL_S):
                    self._take(news)
            except LedgerError as error:
                self._changed(str(error))
                self._ended.wait(FAILED_S)
        self._source.close()

    def _take(self, news: StreamNews) -> None:
        if isinstance(news, StreamGone):
            self._changed(news.reason)
        elif isinstance(news, StreamBegin):
            self._changed("" if self._source.is_streaming else None)
        elif isinstance(news, StreamBatch) and news.events:
            self._changed(None)
