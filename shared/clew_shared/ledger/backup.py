"""A copy of a ledger as it stands at one moment, made while another process may be writing it.

It does not check the copy: `verify` does. The final place of the copy, and what happens to a file that is already
there, is up to the caller.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import apsw

from clew_shared.files.durable import sync
from clew_shared.ledger.errors import LedgerError
from clew_shared.ledger.opening import check_kind, explained, needs_immutable, open_reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

STEP_PAGES = 256  # 1 MB between two calls of `progress`
_READING = (apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS)
BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite may keep beside a database's file."""


def copy(source: Path, target: Path, progress: Callable[[int, int], None]) -> None:
    """Copy the ledger at `source` into the new file `target` (mode 0600), durably and as one file alone.

    One read transaction spans the copy, so that it shows one moment: a writer continues, but can reuse its log only
    afterwards. `progress` is called with (pages to copy, pages in all) before each step, and stops the copy by
    raising. Raises LedgerError for either file; the caller removes what is then left of `target`.
    """
    with explained(source), closing(_opened(source)) as con:
        con.execute("BEGIN")
        check_kind(con, source)
        with _into(target):
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
            _copy_pages(con, target, progress)
            sync(target)


def _opened(source: Path) -> apsw.Connection:
    return open_reading(source, immutable=needs_immutable(source))


def _copy_pages(con: apsw.Connection, target: Path, progress: Callable[[int, int], None]) -> None:
    with closing(apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)) as into:
        into.pragma("synchronous", "off")  # it is synced as a whole, at the end
        with into.backup("main", con, "main") as backup:
            backup.step(0)  # finds out how many pages there are
            while not backup.done:
                progress(backup.remaining, backup.page_count)
                backup.step(STEP_PAGES)
        into.pragma("journal_mode", "delete")


@contextmanager
def _into(target: Path) -> Iterator[None]:
    """Raise errors of writing the copy as the copy's; an unreadable source is reported as the source's."""
    try:
        yield
    except (apsw.FullError, apsw.CantOpenError, apsw.IOError, OSError) as error:
        if getattr(error, "extendedresult", 0) in _READING:
            raise
        what = f"cannot be written: {error}"
        raise LedgerError(target, what, "free some space, or choose another place") from error


def remove(path: Path) -> None:
    """Remove a database's file and what SQLite may have put beside it."""
    for name in (path.name, *(path.name + end for end in BESIDE)):
        path.with_name(name).unlink(missing_ok=True)
