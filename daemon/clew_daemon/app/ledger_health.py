"""What the daemon does when the ledger is full, slow, failed or lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from clew_daemon.app.status import StatusLine
from clew_daemon.record.lost_record import write_note
from clew_shared.ledger import Ledger, LedgerError, LedgerLostError, LedgerState
from clew_shared.ledger.writer_thread import SLOW_S

log = structlog.get_logger()

EVERY_S = 1.0
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


class LedgerWatch:
    """Compares the ledger's files with the open ones every EVERY_S, and notes its last event beside it.

    `state` is the state folder of its home. It is never on a step's path.
    """

    def __init__(self, ledger: Ledger, state: Path) -> None:
        self._ledger = ledger
        self._noted = 0
        self._last_fault = ""
        ledger.files.hold(state)

    async def look(self) -> None:
        """Raise LedgerFailed if the files differ; nothing is judged from then on."""
        self._ledger.look()
        if self._ledger.assigned > self._noted:
            await self.note()

    async def note(self) -> None:
        """Write the note; a failure is logged once, and the next look tries again."""
        fault = ""
        try:
            self._noted = await asyncio.to_thread(_note, self._ledger)
        except (LedgerError, OSError) as error:
            fault = str(error)
        if fault and fault != self._last_fault:
            log.warning("ledger.unnoted", path=str(self._ledger.path), reason=fault)
        self._last_fault = fault


def _note(ledger: Ledger) -> int:
    """Note the last durable event, and return its number, 0 for none."""
    last = ledger.last_event()
    if last:
        write_note(ledger.path, last)
    return last[0] if last else 0
