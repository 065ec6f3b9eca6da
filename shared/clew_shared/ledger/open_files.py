"""Whether a ledger's files are still those that are open: not deleted, moved, replaced or overwritten."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HEAD_BYTES = 100  # SQLite's own header: it counts changes and pages


class OpenFiles:
    """The files of one open ledger, its log's among them; each is known by device and inode.

    SQLite holds them open meanwhile, so no other file can have their numbers.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[Path, tuple[int, int]] = {}
        for end in ("", "-wal", "-shm"):
            self.hold(path.with_name(path.name + end))
        # until SQLite has no locks there: closing any descriptor of the file would release them
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._mark: tuple[int, bytes] | None = self._look()

    def hold(self, path: Path) -> None:
        """Watch another file or folder, too; raises OSError."""
        found = path.stat()
        self._known[path] = found.st_dev, found.st_ino

    def moved(self) -> str:
        """Return which file is no longer the open one, "" if all are; from any thread."""
        for path, known in list(self._known.items()):
            try:
                found = path.stat()
            except OSError:
                return f"{path.name} was deleted or moved away"
            if (found.st_dev, found.st_ino) != known:
                return f"{path.name} was replaced by another one"
        return ""

    def fault(self) -> str:
        """Return what happened to the files, "" if they are as they were left."""
        overwritten = f"{self._path.name} was written by another program"
        return self.moved() or (overwritten if self.is_overwritten() else "")

    def is_overwritten(self) -> bool:
        """Return whether another program wrote the database's file, as `cp` does with a file that is there."""
        before = self._mark  # None: a checkpoint is under way
        return before is not None and self._look() != before and self._mark is before

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Bracket a checkpoint, the only thing that writes the database's file."""
        self._mark = None
        try:
            yield
        finally:
            self._mark = self._look()

    def close(self) -> None:
        """Close the descriptor, once SQLite has closed the file."""
        self._mark = None  # the number may soon be that of another file
        self._known.clear()
        os.close(self._fd)

    def _look(self) -> tuple[int, bytes]:
        return os.fstat(self._fd).st_size, os.pread(self._fd, _HEAD_BYTES, 0)
