"""Saving the record when its files were deleted, moved or replaced while they were open.

The open connection still has all of it. What is at the paths now belongs to another program: nothing there is written
or removed, except what is known to be the open ledger itself.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from clew_shared.files.durable import sync, unused_name
from clew_shared.ledger import schema
from clew_shared.ledger.backup import copy_from, remove
from clew_shared.ledger.errors import LedgerError
from clew_shared.ledger.opening import open_reading
from clew_shared.ledger.wal import is_overwritten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clew_shared.ledger.place import Place

RESCUED = ".rescued-"
"""Follows the ledger's name in that of a rescued copy; the time comes after it."""
PATIENCE_S = 600.0  # how long to retry a copy for which there is no room
RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Rescued:
    """Where the whole record is: in the ledger's own `file`, or in a `copy` of it; in neither if it is lost.

    `message` is for a person, with what to do.
    """

    message: str
    file: Path | None = None
    copy: Path | None = None


class Rescue:
    """One rescue.

    `wait` sleeps for a number of seconds and returns whether to give up; `folders` are where a copy may go; `report`
    is called with the reason why the record cannot be saved yet.
    """

    def __init__(
        self,
        con: apsw.Connection,
        place: Place,
        folders: Sequence[Path],
        wait: Callable[[float], bool],
        report: Callable[[str], None],
    ) -> None:
        self._con = con
        self._place = place
        self._folders = folders
        self._wait = wait
        self._report = report
        self._spoiled = False  # what is read may not be what was written
        self._stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")

    def run(self) -> Rescued:
        """Bring the whole record into one file."""
        overwritten = self._place.is_overwritten()
        self._spoiled = overwritten or is_overwritten(self._place.path)
        if not self._spoiled and (found := self._settled()):
            return found
        self._set_log_aside()
        return self._copied()

    def _settled(self) -> Rescued | None:
        """Move the log into the database's file, if that still has a name; None if a copy is needed."""
        file = self._place.where_is()
        if file is None or self._place.has_foreign_log(file):
            return None
        try:
            with self._place.writing():
                pages, moved = self._con.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
            if pages != moved or self._last_of(file) != self._last():
                return None
        except (apsw.Error, OSError, LedgerError):
            return None
        if file == Path(os.path.realpath(self._place.path)):
            return Rescued(f"everything recorded is in {file}: start clew again", file=file)
        return Rescued(
            f"everything recorded is in {file}: move it back (with its folder, if that was moved), "
            f"or restore it with `clew restore {file}`",
            file=file,
        )

    def _copied(self) -> Rescued:
        """Write a copy into the first folder that takes it; if there is no room, wait for some."""
        ends, reported = time.monotonic() + PATIENCE_S, ""
        while True:
            faults = []
            for folder in self._folders:
                try:
                    return self._copy_in(folder)
                except (apsw.Error, OSError, LedgerError) as error:
                    faults.append(f"{folder}: {getattr(error, 'what', error)}")
            failed = "; ".join(faults)
            if failed != reported:
                reported = failed
                self._report(failed)
            if time.monotonic() > ends or self._wait(RETRY_S):
                return Rescued(
                    f"what it held could not be saved ({failed}): restore a backup (`clew restore FILE`)"
                )

    def _copy_in(self, folder: Path) -> Rescued:
        from clew_shared.ledger import verify  # needed only where the record may be spoiled

        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = unused_name(folder / f"{self._place.path.name}{RESCUED}{self._stamp}")
        part = target.with_name(f".{target.name}.part")
        try:
            copy_from(self._con, part, lambda *_: None)
            if self._spoiled and (fault := verify(part).fault):
                return Rescued(
                    f"what it held could not be saved ({fault.message}): restore a backup (`clew restore FILE`)"
                )
            part.rename(target)
            sync(folder)
        finally:
            with suppress(OSError):
                remove(part)
        return Rescued(
            f"everything recorded was saved: restore it with `clew restore {target}`, then start clew again",
            copy=target,
        )

    def _set_log_aside(self) -> None:
        """Rename the open log, if it is in its place, lest it be read with a database that is not its own."""
        path = self._place.path
        log = path.with_name(f"{path.name}-wal")
        whole = path.exists() and self._place.where_is() == path.resolve() and not self._spoiled
        if not whole and not self._place.has_foreign_log(path):
            with suppress(OSError):
                log.rename(unused_name(log.with_name(f"{log.name}.{self._stamp}")))

    def _last(self) -> tuple[int, bytes] | None:
        found: tuple[int, bytes] | None = self._con.execute(schema.LAST_EVENT).fetchone()
        return found

    def _last_of(self, file: Path) -> tuple[int, bytes] | None:
        with closing(open_reading(file, immutable=True)) as con:
            found: tuple[int, bytes] | None = con.execute(schema.LAST_EVENT).fetchone()
            return found


def copies(ledger: Path) -> list[Path]:
    """Return the rescued copies beside a ledger, the newest first."""
    try:
        found = [p for p in ledger.parent.iterdir() if p.name.startswith(ledger.name + RESCUED)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((p for p in found if p.is_file()), reverse=True)
