"""`herald.json` in the state folder: how far each channel has got in the ledger, and what was counted.

The ledger is the spool: it is read in batches after a cursor, in short transactions, and a cursor moves on only after
what the events before it lead to was delivered.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Literal

import structlog
from pydantic import BaseModel

from clew_daemon.reading import queries
from clew_daemon.reading.errors import CliError
from clew_shared.files import write_whole
from clew_shared.ledger import Cursor, EventRow, Reader

log = structlog.get_logger()

BATCH_ROWS = 500
SAVE_S = 5.0
"""How far, at most, a cursor in the file is behind while nothing is to be delivered."""


class UnknownEventError(CliError):
    """An event of a later clew; it is not passed over, and waits for the herald of that version."""


class ChannelRecord(BaseModel):
    """How far a channel has got, and how it does; `label` is what people call it.

    `cursor` is None before its first look. `told` has what it was told of things that are so now, by their topic.
    `failing_since` is in seconds since 1970, None while it works.
    """

    label: str = ""
    cursor: str | None = None
    told: dict[str, str] = {}
    failing_since: float | None = None
    error: str = ""


class Contents(BaseModel):
    """The file: `counters` are counted up to the cursor `counted`, with the `agents` of goals at work there."""

    version: Literal[1] = 1
    pid: int = 0
    counted: str | None = None
    counters: dict[str, int] = {}
    agents: dict[str, str] = {}
    channels: dict[str, ChannelRecord] = {}


class Book:
    """The file and its contents, changed by one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Read the file if there is one; raises CliError."""
        self._path = path
        self._lock = threading.Lock()
        self._trouble = ""
        self._save_at = 0.0
        try:
            self.contents = Contents.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            self.contents = Contents()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not a file of this clew herald"
            hint = "move it away: the herald then counts from the ledger again"
            raise CliError(f"{path} cannot be used: {why}; {hint}") from None

    @contextmanager
    def changing(self, *, at_once: bool = True) -> Iterator[Contents]:
        """Change the contents, and replace the file; where the disk is full they are kept in memory alone.

        What need not be written `at_once` is written with the next change, within `SAVE_S` if there is one.
        """
        with self._lock:
            yield self.contents
            if not at_once and time.monotonic() < self._save_at:
                return
            self._save_at = time.monotonic() + SAVE_S
            self.contents.pid = os.getpid()
            trouble, self._trouble = self._trouble, ""
            try:
                write_whole(self._path, self.contents.model_dump_json(), 0o600)
            except OSError as error:
                self._trouble = str(error)
                if self._trouble != trouble:
                    log.error("herald.unsaved", reason=self._trouble)  # noqa: TRY400 - a reason


@contextmanager
def opened(path: Path) -> Iterator[Reader | None]:
    """Open the ledger for reading; None where there is none yet.

    Raises LedgerError and, where what is read in the block is of a later clew, UnknownEventError.
    """
    try:
        with queries.opened(path) as reader:
            yield reader
    except ValueError:
        later = "another version of clew has recorded this: start clew herald again"
        raise UnknownEventError(later) from None


def batches(reader: Reader, after: Cursor) -> Iterator[tuple[list[EventRow], Cursor]]:
    """Yield the next events, each time with the cursor behind them, until there are none."""
    while rows := list(islice(reader.read_all(after.seq), BATCH_ROWS)):
        after = Cursor(rows[-1].seq, rows[-1].hash)
        yield rows, after


def continues(reader: Reader, cursor: Cursor) -> bool:
    """Return whether a cursor is a place in this ledger, even if its event was purged since."""
    if cursor.seq == 0 or reader.has_recorded(cursor.seq, cursor.hash):
        return True
    return reader.hash_at(cursor.seq) is None and reader.was_purged(cursor.seq)
