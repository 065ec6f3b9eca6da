"""The SQLite file of a ledger: is it one, of which version, is writing to it durable, and is it still the open one.

A file that is not a ledger, newer, or damaged is refused before a byte of it is changed. SQLite's log (WAL) is moved
into the database between transactions, by `Checkpoints`.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from clew_shared.files import sync
from clew_shared.ledger import schema
from clew_shared.ledger.errors import LedgerError, LedgerUnwell, corrupt

WAL_PAGES_MAX = 1_000  # 4 MB: beyond it a checkpoint is due
CHECKED_BYTES_MAX = 1 << 30  # a larger ledger would hold up the start; `clew verify` checks it
ROWS_MAX = 64  # in one statement
_FULL = 2  # PRAGMA synchronous
_DESCRIPTORS = 3  # database, WAL and its index
_HEADER_BYTES = 512  # the smallest page
_HEAD_BYTES = 100  # SQLite's own header: it counts changes and pages
_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT))
_PASSING = _NO_ROOM | {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EAGAIN}

Statement = tuple[str, Sequence[tuple[Any, ...]]]  # SQL, and the rows that it is executed with


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as the ledger's own: damaged, unusable now, or unusable at all."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        raise corrupt(path, f"damaged: {error}") from error
    except (apsw.Error, OSError) as error:
        if _passing(error, path):
            hint = "free some space, repair the disk, or end the program that holds the file, then start again"
            raise LedgerUnwell(path, f"cannot be used: {error}", hint) from error
        hint = "check that the file exists, that you may read it, and that the disk works"
        raise LedgerError(path, f"cannot be used: {error}", hint) from error


def _passing(error: apsw.Error | OSError, path: Path) -> bool:
    """Return whether a later start may succeed: a full or failing disk, no descriptors, no memory."""
    if isinstance(error, apsw.CantOpenError):  # SQLite does not say why: the system does
        try:
            with ExitStack() as opened:
                for _ in range(_DESCRIPTORS):
                    opened.enter_context(path.open("rb"))
        except OSError as reason:
            error = reason
    if isinstance(error, OSError):
        return error.errno in _PASSING
    return isinstance(error, apsw.IOError | apsw.FullError | apsw.BusyError | apsw.NoMemError)


def open_writing(
    path: Path, migrations: Sequence[str] = schema.MIGRATIONS, vfs: str | None = None
) -> apsw.Connection:
    """Open or make the ledger (mode 0600) with the one connection that writes; raises LedgerError."""
    with explained(path):
        refuse_remains(path)
        _make_private(path)
        con = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
        try:
            # A refused file stays as it is: without this, closing would move its WAL into it.
            con.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            con.set_busy_timeout(schema.TIME_OUT_MS)
            version = check_kind(con, path, len(migrations))
            if version:
                _check_health(con, path)
            _make_durable(con, path)
            if version < len(migrations):
                _migrate(con, migrations)
        except BaseException:
            con.close()
            raise
        return con


def _check_health(con: apsw.Connection, path: Path) -> None:
    """Let SQLite check every page before anything is appended (about 1 GB/s), and check the goals' last events."""
    if path.stat().st_size <= CHECKED_BYTES_MAX:
        found = str(con.execute("PRAGMA quick_check(1)").get)
        if found != "ok":
            raise corrupt(path, f"damaged: {' '.join(found.split())}")
    lost = con.execute(schema.LOST_HEAD).fetchone()
    if lost is not None:
        raise corrupt(path, f"damaged: the record is incomplete at seq {lost[1]}, goal {lost[0]!r}")


def refuse_remains(path: Path) -> None:
    """Refuse what SQLite would take for a new database and overwrite, as a log whose database is gone."""
    log = path.with_name(path.name + "-wal")
    waiting, size = _size(log), _size(path)  # in this order: a new database has pages before a log
    if 0 < size < _HEADER_BYTES:
        raise corrupt(path, f"is cut off: {size} bytes are left")
    if waiting and not size:
        raise corrupt(path, f"is empty or gone, and its {log.name} of {waiting} bytes is there")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _make_private(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        path.chmod(0o600)
        return
    os.close(descriptor)
    sync(path.parent)  # otherwise a durable event could be in a file without a name


def check_kind(con: apsw.Connection, path: Path, known: int = len(schema.MIGRATIONS)) -> int:
    """Return the schema version (0 for an empty file); raises for a file that is not a ledger of ours."""
    application, version, empty = 0, 0, True
    with con:  # one view of it, also while another process is making the ledger
        application = con.pragma("application_id")
        version = con.pragma("user_version")
        empty = version == 0 and con.execute("SELECT count(*) FROM sqlite_schema").get == 0
    if application != schema.APPLICATION_ID and not empty:
        raise corrupt(path, "is a database of another program")
    if version > known:
        what = f"has version {version}, this clew knows versions up to {known}"
        raise LedgerError(path, what, "run the newer clew that wrote it; nothing was changed")
    return version


def _make_durable(con: apsw.Connection, path: Path) -> None:
    con.pragma("journal_mode", "wal")
    con.pragma("synchronous", "full")
    con.pragma("temp_store", "memory")  # a full or missing TMPDIR must not fail a write
    con.wal_autocheckpoint(0)  # the writer checkpoints between commits, not within one
    con.pragma("cell_size_check", value=True)
    mode, synchronous = con.pragma("journal_mode"), con.pragma("synchronous")
    if mode != "wal" or synchronous != _FULL:
        what = f"not durable here: journal_mode={mode}, synchronous={synchronous}"
        raise LedgerError(path, what, "put it on a local disk (not a network file system)")


def _migrate(con: apsw.Connection, migrations: Sequence[str]) -> None:
    """Migrate the schema, all versions in one transaction, which an error ends by closing the connection."""
    con.execute("BEGIN IMMEDIATE")
    version: int = con.pragma("user_version")
    for script in migrations[version:]:
        con.execute(script)
    con.pragma("application_id", schema.APPLICATION_ID)
    con.pragma("user_version", len(migrations))
    con.execute("COMMIT")


def roll_back(con: apsw.Connection) -> None:
    """End a transaction without effect, if there is one; the first error is the one to report."""
    with suppress(apsw.Error):
        if con.in_transaction:
            con.execute("ROLLBACK")


def open_reading(path: Path) -> apsw.Connection:
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    con = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    con.set_busy_timeout(schema.TIME_OUT_MS)
    return con


def write(con: apsw.Connection, statements: Sequence[Statement]) -> None:
    """Execute and commit statements; events that come together are one, to wait once for the interpreter's lock."""
    calls: list[tuple[str, list[Any]]] = []
    for sql, same in groupby(statements, key=itemgetter(0)):
        rows = [row for _, some in same for row in some]
        most = ROWS_MAX if sql == schema.APPEND else 1
        for at in range(0, len(rows), most):
            part = rows[at : at + most]
            text = ", ".join([sql, *[schema.ROW] * (len(part) - 1)])
            calls.append((text, list(chain(*part))))
    if con.in_transaction or len(calls) > 1:
        if not con.in_transaction:
            con.execute("BEGIN IMMEDIATE")
        for call in calls:
            con.execute(*call)
        con.execute("COMMIT")
    elif calls:
        con.execute(*calls[0])  # autocommit, in one call


class Checkpoints:
    """The checkpoints of the one connection that writes; `pages` are in its log, as far as known."""

    def __init__(self, con: apsw.Connection, pages: int = 0) -> None:
        self._con = con
        self.pages = pages
        self._pages_max = WAL_PAGES_MAX
        con.set_wal_hook(self._committed)

    @property
    def is_due(self) -> bool:
        return self.pages > self._pages_max

    def run(self) -> None:
        """Move the log into the database, as far as readers allow; raises apsw.Error, but not for a full disk."""
        self._pages_max = self.pages + WAL_PAGES_MAX  # not again at once, whatever comes of it
        try:
            pages, moved = self._con.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            if not may_be_retried(error, self._con):
                raise
        else:
            self.pages = 0 if pages == moved else pages
            self._pages_max = self.pages + WAL_PAGES_MAX

    def _committed(self, _con: apsw.Connection, _name: str, pages: int) -> int:
        self.pages = pages
        return apsw.SQLITE_OK


def may_be_retried(error: apsw.Error, con: apsw.Connection) -> bool:
    """Return whether the disk or quota is full or another program holds the file, and not failing."""
    if isinstance(error, apsw.FullError | apsw.BusyError):
        return True
    retryable = (apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_SHMSIZE)
    return getattr(error, "extendedresult", 0) in retryable and con.system_errno in _NO_ROOM


class OpenFiles:
    """The files of one open ledger by device and inode: SQLite holds them, so no other file has these numbers."""

    def __init__(self, path: Path) -> None:
        files = (path.with_name(path.name + end) for end in ("", "-wal", "-shm"))
        self._known = {file: _identity(file) for file in files}
        # until SQLite has no locks there: closing any descriptor of the file would release them
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._head: tuple[int, bytes] | None = self._look()

    def moved(self) -> str:
        """Return which file is no longer the open one, "" if all are; from any thread."""
        for path, known in list(self._known.items()):
            if (found := _identity(path)) is None:
                return f"{path.name} was deleted or moved away"
            if found != known:
                return f"{path.name} was replaced by another one"
        return ""

    def fault(self) -> str:
        """Return what happened to the files, "" if they are as they were left."""
        moved, before = self.moved(), self._head  # None: a checkpoint is under way
        if moved or before is None or self._look() == before or self._head is not before:
            return moved
        return f"{next(iter(self._known)).name} was written by another program"  # as `cp` does

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Bracket a checkpoint, the only thing that writes the database's file."""
        self._head = None
        try:
            yield
        finally:
            self._head = self._look()

    def close(self) -> None:
        """Close the descriptor, once SQLite has closed the file."""
        self._head = None  # the number may soon be that of another file
        self._known.clear()
        os.close(self._fd)

    def _look(self) -> tuple[int, bytes]:
        return os.fstat(self._fd).st_size, os.pread(self._fd, _HEAD_BYTES, 0)


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None
