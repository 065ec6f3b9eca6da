"""`herald.json` in the state folder: how far each channel has got in the ledger, and what was counted.

The ledger is the spool: a cursor moves on only after what the events before it lead to was delivered.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import structlog
from pydantic import BaseModel

log = structlog.get_logger()


class BookError(Exception):
    """The file cannot be used; the message says why, and what to do."""


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
        """Read the file if there is one; raises BookError."""
        self._path = path
        self._lock = threading.Lock()
        self._trouble = ""
        try:
            self.contents = Contents.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            self.contents = Contents()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not a file of this clew herald"
            hint = "move it away: the herald then counts from the ledger again"
            raise BookError(f"{path} cannot be used: {why}; {hint}") from None

    @contextmanager
    def changing(self) -> Iterator[Contents]:
        """Change the contents, and replace the file; where the disk is full they are kept in memory alone."""
        with self._lock:
            yield self.contents
            self.contents.pid = os.getpid()
            try:
                self._write(self.contents.model_dump_json().encode())
                self._trouble = ""
            except OSError as error:
                if self._trouble != str(error):
                    log.error("herald.unsaved", reason=str(error))  # noqa: TRY400 - a reason
                self._trouble = str(error)

    def _write(self, text: bytes) -> None:
        part = self._path.with_name(f".{self._path.name}.tmp")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        part.replace(self._path)
