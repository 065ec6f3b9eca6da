"""What the daemon does when the ledger is full, slow, failed or lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from clew_shared.ledger import Ledger, LedgerLostError, LedgerState
from clew_shared.ledger.writer_thread import SLOW_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clew_daemon.app.status import StatusLine
    from clew_daemon.host.sd_notify import Notifier
    from clew_daemon.record.watch import RecordWatch

log = structlog.get_logger()

RESCUE_POLL_S = 5.0
SLOW_EVERY_S = 60.0


class LedgerHealth:
    """Logs each change of the ledger's state, shows it in STATUS=, and stops the daemon when the ledger has failed."""

    def __init__(self, path: Path, line: StatusLine, stop: Callable[[], None]) -> None:
        self._path = path
        self._line = line
        self._stop = stop
        self._troubled = False
        self._slow_logged_at = float("-inf")
        self.ledger: Ledger | None = None

    def on_state(self, state: LedgerState) -> None:
        """Handle a new state, on the event loop."""
        trouble = ""
        match state:
            case LedgerState.FULL:
                trouble = "the disk is full: nothing is accepted or judged until there is space"
                log.critical("ledger.full", path=str(self._path))
            case LedgerState.SLOW:
                self._log_slow()
                return
            case LedgerState.FAILED:
                trouble = self._log_failed()
                self._stop()
            case _ if self._troubled:
                log.info("ledger.recovered")
        self._troubled = bool(trouble)
        self._line.show_trouble(trouble)

    def _log_failed(self) -> str:
        failure = self.ledger.failure if self.ledger else None
        if isinstance(failure, LedgerLostError):
            log.critical("ledger.lost", reason=str(failure))
            return f"{failure.what}: {failure.hint}"
        log.critical("ledger.failed", reason=str(failure))
        return "the ledger cannot be written: the daemon stops"

    def _log_slow(self) -> None:
        """Log that the disk is slow, at most once in SLOW_EVERY_S: that may come and go for hours."""
        now = time.monotonic()
        if now >= self._slow_logged_at + SLOW_EVERY_S:
            self._slow_logged_at = now
            log.warning("ledger.slow", path=str(self._path), longer_than_s=SLOW_S)


async def wait_for_rescue(ledger: Ledger, watch: RecordWatch, notifier: Notifier) -> None:
    """Wait until what a lost ledger held is saved, or cannot be; the ledger bounds the wait."""
    while isinstance(ledger.failure, LedgerLostError):
        notifier.extend(3 * RESCUE_POLL_S)
        if found := await ledger.rescued(RESCUE_POLL_S):
            watch.saved(found)
            log.critical("ledger.saved", file=str(found.copy or found.file), said=found.message)
            return
