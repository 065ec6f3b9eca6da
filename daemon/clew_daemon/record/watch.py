"""Watches over the ledger while the daemon runs: are its files still there, and how far has it come.

It looks once a second and before each acceptance, never on a step's path. What becomes of a ledger that is gone is
the ledger's own.
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
"""After these the note is written at once."""


class RecordWatch:
    """Of one open ledger, whose home's state folder is `state`."""

    def __init__(self, ledger: Ledger, state: Path) -> None:
        self._ledger = ledger
        self._noted = 0
        self._closed = False
        self._writing = threading.Lock()
        self._due = asyncio.Event()
        self._told = ""
        ledger.hold(state)

    async def look(self) -> None:
        """Compare the ledger's files with the open ones; raises LedgerFailed where they are not the same."""
        self._ledger.look()
        if self._ledger.assigned > self._noted:
            self._due.set()

    def heard(self, _goal: str, records: list[RecordedEvent]) -> None:
        """Hear of durable events: some are noted at once."""
        if any(isinstance(record.event, NOTED) for record in records):
            self._due.set()

    async def notes(self) -> None:
        """Write the note whenever it is due."""
        while True:
            await self._due.wait()
            self._due.clear()
            await self._note(closed=False)

    async def close(self) -> bool:
        """Note, before the ledger is closed, that it will need no log any more; False if that cannot be noted."""
        return self._ledger.failure is None and await self._note(closed=True)

    def saved(self, found: Rescued | None) -> None:
        """Note that a lost log is not missed, where all of it is in the ledger's file."""
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
            if self._told != str(error):
                self._told = str(error)
                log.warning("ledger.unnoted", path=str(self._ledger.path), reason=str(error))
            return False
        self._told = ""
        return True

    def _write(self, *, closed: bool) -> None:
        with self._writing:  # a late thread must not open again what is closed
            found = self._ledger.last_event()
            if found is None or (not closed and (self._closed or found[0] <= self._noted)):
                return
            seq, tip = found
            file, kept = self._ledger.inodes
            one = note.Note(seq=seq, hash=tip.hex(), open=not closed, file=file, log=kept)
            note.write(self._ledger.path, one, folder=self._ledger.folder, durable=closed)
            self._noted, self._closed = seq, closed
