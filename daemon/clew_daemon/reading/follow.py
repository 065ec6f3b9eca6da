"""Durable events as they are recorded: `Follower` looks into the ledger in short transactions, whoever writes it.

It has the cursors of the daemon's stream (docs/stream.md), which is for programs that cannot read the ledger.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from clew_daemon.reading.client import connected
from clew_daemon.reading.errors import CliError
from clew_daemon.reading.instance import Instance
from clew_daemon.reading.queries import opened
from clew_shared.ledger import Cursor, EventRow, LedgerError

LOOK_ROWS = 500
LOOK_S, ASK_S = 0.25, 1.0


@dataclass(frozen=True, slots=True)
class News:
    """Events in the order in which they were recorded; with `reset` what was known before is of another ledger.

    `trouble` is why nothing more can be expected: no daemon runs, or the ledger cannot be read.
    """

    events: tuple[EventRow, ...] = ()
    reset: bool = False
    trouble: str = ""


class Follower:
    """The events of a ledger after a cursor; without one, those after the first look."""

    def __init__(self, ledger: Path, after: Cursor | None = None) -> None:
        self._ledger = ledger
        self.after = after

    def look(self) -> News:
        """Return what is new, nothing while there is no ledger; raises LedgerError."""
        with opened(self._ledger) as reader:
            if reader is None:
                self.after = self.after or Cursor()
                return News()
            if self.after is None or not self.after.is_of(reader):
                is_reset, self.after = self.after is not None, Cursor.at_end(reader)
                return News(reset=is_reset)
            rows = tuple(islice(reader.read_all(self.after.seq), LOOK_ROWS))
        if rows:
            self.after = Cursor(rows[-1].seq, rows[-1].hash)
        return News(rows)


def follow(instance: Instance, heard: Callable[[News], None]) -> threading.Event:
    """Call `heard` in a thread with what is new, and when a daemon comes or goes, until the returned event is set."""
    ended, follower = threading.Event(), Follower(instance.ledger)

    def run() -> None:
        silence, told, ask_at = "", None, 0.0
        while not ended.wait(LOOK_S):
            if time.monotonic() > ask_at:
                silence, ask_at = _silence(instance), time.monotonic() + ASK_S
            try:
                news = replace(follower.look(), trouble=silence)
            except LedgerError as error:
                news = News(trouble=str(error))
            if news.events or news.reset or news.trouble != told:
                told = news.trouble
                heard(news)

    threading.Thread(target=run, name="following", daemon=True).start()
    return ended


def _silence(instance: Instance) -> str:
    """Return why no daemon can be asked, "" where one listens."""
    try:
        connected(instance.socket).close()
    except CliError as error:
        return error.message
    return ""
