"""Whether the ledger's files are still those that are open, and written by no other program.

Every path is compared with a descriptor that is open from the start. It is an `O_PATH` one: closing it releases none
of SQLite's locks, as closing an ordinary descriptor would.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from clew_shared.ledger import wal

if TYPE_CHECKING:
    from collections.abc import Iterator

    _Marks = tuple[int, int, bytes]  # size, time of the last change in ns, head

LOG_FILES = ("-wal", "-shm")
_HEAD_BYTES = 100  # SQLite's own header: it counts changes and pages


class Place:
    """The files of one open ledger. `fault` and `hold` belong to one thread, `writing` to the one that writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held: dict[Path, int] = {}
        for one in (path, *(path.with_name(path.name + end) for end in LOG_FILES)):
            with suppress(FileNotFoundError):
                self.hold(one)
        self._fd = os.open(
            path, os.O_RDONLY | os.O_CLOEXEC
        )  # closed once SQLite has no locks there
        self._folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._marks: _Marks | None = self._look()

    def hold(self, path: Path) -> None:
        """Watch another file or folder, too; raises OSError."""
        self._held[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)

    @property
    def folder(self) -> int:
        """A descriptor of the folder that the ledger was opened in, wherever that is now."""
        return self._folder

    @property
    def inodes(self) -> tuple[int, int]:
        """The inodes of the database's file and of its log, 0 for one that is empty or not there."""
        fds = (self._held.get(p) for p in (self.path, self.path.with_name(f"{self.path.name}-wal")))
        found = (None if fd is None else os.fstat(fd) for fd in fds)
        file, log = (one.st_ino if one and one.st_size else 0 for one in found)
        return file, log

    def moved(self) -> str:
        """Return which file is no longer the open one, "" if all are; from any thread."""
        faults = (_moved(path, fd) for path, fd in list(self._held.items()))
        return next(filter(None, faults), "")

    def fault(self) -> str:
        """Return what happened to the ledger's files, "" if they are as they were left."""
        if what := self.moved():
            return what
        if self.is_overwritten():
            return f"{self.path.name} was written by another program"
        if wal.is_overwritten(self.path):
            return f"{self.path.name}-wal was written by another program"
        return ""

    def is_overwritten(self) -> bool:
        """Return whether the database's file was written by another program.

        A file that was only touched has the same size and head.
        """
        before = self._marks
        if before is None:
            return False  # a checkpoint is under way
        found = self._look()
        if found[1] == before[1] or self._marks is not before:
            return False
        return (found[0], found[2]) != (before[0], before[2])

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Bracket a checkpoint, the only thing that writes the database's file."""
        self._marks = None
        try:
            yield
        finally:
            self._marks = self._look()

    def where_is(self) -> Path | None:
        """Return the path of the open database's file, None if it has no name any more."""
        try:
            found = Path(f"/proc/self/fd/{self._held[self.path]}").readlink()
            return found if os.path.samestat(found.stat(), os.fstat(self._fd)) else None
        except OSError:
            return None

    def has_foreign_log(self, database: Path) -> bool:
        """Return whether a log that SQLite would read lies beside `database`, and is not the open one."""
        log = database.with_name(database.name + LOG_FILES[0])
        try:
            found = log.stat()
        except OSError:
            return False
        own = self._held.get(self.path.with_name(self.path.name + LOG_FILES[0]))
        return found.st_size > 0 and not (
            own is not None and os.path.samestat(found, os.fstat(own))
        )

    def close(self) -> None:
        """Close the descriptors, once SQLite has closed the files."""
        self._marks = None  # their numbers may soon be those of other files
        for fd in (*self._held.values(), self._fd, self._folder):
            os.close(fd)
        self._held.clear()

    def _look(self) -> _Marks:
        found = os.fstat(self._fd)
        return found.st_size, found.st_mtime_ns, os.pread(self._fd, _HEAD_BYTES, 0)


def _moved(path: Path, fd: int) -> str:
    try:
        if os.path.samestat(path.stat(), os.fstat(fd)):
            return ""
    except (FileNotFoundError, NotADirectoryError):
        return f"{path.name} was deleted or moved away"
    except OSError as error:
        return f"{path.name} can no longer be found: {error.strerror}"
    return f"{path.name} was replaced by another one"
