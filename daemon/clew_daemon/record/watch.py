"""Watches the ledger while the daemon runs: are its files still there, and what is its last event.

It checks once a second and before each acceptance, never on a step's path. The ledger itself saves its record if its
files are gone.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from clew_shared.ledger import LedgerError, note
from clew_shared.record import events as ev

if TYPE_CHECKING:
    from pathlib import Path

    from clew_shared.core.journal import RecordedEvent
    from clew_shared.ledger import Ledger
    from clew_shared.ledger.rescue import Rescued

log = structlog.get_logger()

EVERY_S = 1.0
NOTED = (ev.GoalAccepted, ev.GoalEnded)
"""Events after which the note is written at once."""


class RecordWatch:
    """Watches one open ledger; `state` is the state folder of its home."""

    def __init__(self, ledger: Ledger, state: Path) -> None:
        self._ledger = ledger
        self._noted = 0
        self._closed = False
        self._writing = threading.Lock()
        self._due = asyncio.Event()
        self._last_fault = ""
        ledger.files.hold(state)

    async def look(self) -> None:
        """Compare the ledger's files with the open ones; raises LedgerFailed if they differ."""
        self._ledger.look()
        if self._ledger.assigned > self._noted:
            self._due.set()

    def heard(self, _goal: str, records: list[RecordedEvent]) -> None:
        """Listen to durable events: some are noted at once."""
        if any(isinstance(record.event, NOTED) for record in records):
            self._due.set()

    async def notes(self) -> None:
        """Write the note whenever it is due."""
        while True:
            await self._due.wait()
            self._due.clear()
            await self._note(closed=False)

    async def close(self) -> bool:
        """Note, before the ledger is closed, that it needs no log from then on; False if the note cannot be written."""
        return self._ledger.failure is None and await self._note(closed=True)

    def saved(self, found: Rescued | None) -> None:
        """Note that a lost log is not needed, if all of it is in the ledger's file."""
        path = self._ledger.path
        before = note.read(path)
        if found and found.file and before and found.file == path.resolve():
            try:
                note.write(path, replace(before, open=False), durable=True)
            except OSError as error:
                log.warning("ledger.unnoted", path=str(path), reason=str(error))

    async def _note(self, *, closed: bool) -> bool:
        try:
            await asyncio.to_thread(self._write, closed=closed)
        except (LedgerError, OSError) as error:
            if self._last_fault != str(error):
                self._last_fault = str(error)
                log.warning("ledger.unnoted", path=str(self._ledger.path), reason=str(error))
            return False
        self._last_fault = ""
        return True

    def _write(self, *, closed: bool) -> None:
        with self._writing:  # a late thread must not replace the note of a closed ledger
            found = self._ledger.last_event()
            if found is None or (not closed and (self._closed or found[0] <= self._noted)):
                return
            seq, tip = found
            file, wal = self._ledger.files.inodes
            one = note.Note(seq=seq, hash=tip.hex(), open=not closed, file=file, log=wal)
            note.write(self._ledger.path, one, folder=self._ledger.files.folder, durable=closed)
            self._noted, self._closed = seq, closed
