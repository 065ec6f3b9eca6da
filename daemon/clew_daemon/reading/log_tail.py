"""The daemon's log file, which has more than the stream of events: its end, and what is added, across rotation."""

import contextlib
import io
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

LINES_MAX = 100_000

LogEntry = dict[str, Any]  # `timestamp`, `level`, `event`, `goal`, … (docs/operations.md, Logs)


class LogTail:
    """A log file that is read from the end of the last read, and from its start after a rotation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open()

    def _open(self) -> None:
        self._rest = b""
        self._file: IO[bytes] = io.BytesIO()
        self._known: os.stat_result | None = None
        with contextlib.suppress(FileNotFoundError):
            self._file = self._path.open("rb")
            self._known = os.fstat(self._file.fileno())

    def last(self) -> list[bytes]:
        """Return the whole lines of the rotated file and of this one, oldest first."""
        earlier = rotated(self._path)
        before = earlier.read_bytes().splitlines() if earlier.exists() else []
        return [*before, *self.added()][-LINES_MAX:]

    def added(self) -> list[bytes]:
        """Return the whole lines that were added since the last call."""
        lines = self._read()
        if self._was_rotated():
            lines += self._read()  # lines that were written before the renaming
            self.close()
            self._open()
            lines += self._read()
        return lines

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self) -> list[bytes]:
        lines: list[bytes]
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        return lines

    def _was_rotated(self) -> bool:
        try:
            now = os.stat(self._path)  # noqa: PTH116 - compared with fstat
        except FileNotFoundError:
            return False
        is_same = self._known is not None and os.path.samestat(self._known, now)
        return not is_same or now.st_size < self._file.tell()


def rotated(path: Path) -> Path:
    """Return the path of the last rotated file."""
    return path.with_name(path.name + ".1")


def entries_of(lines: Iterable[bytes], goal: str | None) -> Iterator[LogEntry]:
    """Yield the entries of lines, all or those of a goal; a line that cannot be read is an entry of its own."""
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:  # a torn line, after a full disk or a power cut
            entry = {"level": "warning", "event": line.decode("utf-8", "replace")}
        if isinstance(entry, dict) and (goal is None or entry.get("goal") == goal):
            yield entry
