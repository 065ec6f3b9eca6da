"""The iteration log on disk, in `.agent_context/`: one record a line, read back by the next program.

It judges nothing. What cannot be written is warned of once, and the log continues in memory; a damaged line is
skipped with a warning. Keys are redacted. One program at a time writes a log.
"""

import json
import os
import re
import stat
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path

from clew_shared.text.redact import redacted
from clew_shared.views.contextdir import (
    FOLDER,
    context_folder,
    exclude_from_git,
    json_line,
    replace_file,
    write_all,
)
from clew_worker.library.identity import goal_id, runs_elsewhere, started_at
from clew_worker.library.iteration_record import IterationRecord, parsed

BYTES_MAX = 8 << 20
"""A larger file is reduced to its newest records, in half of this."""

LINE_BYTES_MAX = 256 << 10
_GOAL_IDS = re.compile(r"[\w.-]{1,100}")
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class IterationStore:
    """The file of one log, `iterations.jsonl`; with the goal in its name where that is known.

    Between the records are marks: `{"opened": [pid, since]}` where a program began to write, `{"ended": true}` where
    the log of no goal was closed; such a log is not continued.
    """

    def __init__(self, folder: Path, goal: str) -> None:
        given = os.environ.get("CLEW_GOAL_ID", "")
        name = goal_id(goal) if goal else given if _GOAL_IDS.fullmatch(given) else ""
        self._named = bool(name)
        self._name = f"iterations-{name}.jsonl" if name else "iterations.jsonl"
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._opened = self._begins = self._torn = self._off = False
        try:
            self._folder = folder.absolute()
        except OSError as error:  # the current folder was removed
            self._give_up(error)

    def read(self) -> list[IterationRecord]:
        """Return the records that this log continues with."""
        data = b""
        if not self._off:
            try:
                data = self._content()
            except FileNotFoundError:
                return []
            except OSError as error:
                self._give_up(error)
        self._torn = bool(data) and not data.endswith(b"\n")
        records, opened, ended = self._read(data)
        if self._named:
            return records
        self._off = self._off or runs_elsewhere(*opened)
        self._begins = ended
        return [] if ended or self._off else records

    def _read(self, data: bytes) -> tuple[list[IterationRecord], tuple[int, float], bool]:
        """Return the records, who began to write last, and whether the log was closed after all of them."""
        records: list[IterationRecord] = []
        opened, ended, damaged = (0, 0.0), False, 0
        for line in filter(bytes.strip, data.split(b"\n")):
            try:
                value = json.loads(line)
                if ended := value.get("ended") is True:
                    continue
                if "opened" in value:
                    opened = (int(value["opened"][0]), float(value["opened"][1]))
                else:
                    records.append(parsed(value))
            except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
                damaged += 1
        if damaged:
            self._warn(f"{damaged} damaged lines are skipped")
        return records, opened, ended

    def append(self, record: IterationRecord) -> None:
        """Add a record; it is durable when this returns."""
        value = redacted(record.model_dump(mode="json", fallback=str))
        line = json_line(value)
        if len(line) > LINE_BYTES_MAX:
            self._warn(f"the record of iteration {record.iteration} is too large and is not kept")
            return
        with self._lock:
            if self._off:
                return
            try:
                self._write(line if self._opened else self._opening() + line)
            except OSError as error:
                self._give_up(error)

    def end(self) -> None:
        """Mark the log of no goal as ended, unless the program ends by an error or did not write to it."""
        crashed = getattr(sys, "last_value", None) is not None
        if self._named or self._off or not self._opened or crashed or os.getpid() != self._pid:
            return
        with self._lock, suppress(OSError):
            self._write(json_line({"ended": True}))

    def _opening(self) -> bytes:
        return b"\n" * self._torn + json_line({"opened": [os.getpid(), started_at()]})

    def _content(self) -> bytes:
        """Return the end of the file, up to its limit."""
        place = self._folder / FOLDER
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
        try:
            fd = os.open(self._name, os.O_RDONLY | _FLAGS, dir_fd=folder)
        finally:
            os.close(folder)
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                return b""
            start = max(found.st_size - BYTES_MAX, 0)
            file.seek(start)
            data = file.read(BYTES_MAX)
        return data if not start else data[data.find(b"\n") + 1 :]

    def _write(self, data: bytes) -> None:
        if (self._folder / FOLDER).is_symlink():
            raise NotADirectoryError(f"{FOLDER} is a link")
        with context_folder(str(self._folder)) as folder:
            if not self._opened:
                exclude_from_git(folder)
            if self._begins or not _append(folder, self._name, data):
                old = b"" if self._begins else self._newest()
                replace_file(folder, self._name, [self._opening(), old, data])
        self._opened, self._begins, self._torn = True, False, False

    def _newest(self) -> bytes:
        data = b""
        with suppress(OSError):
            data = self._content()
        if len(data) <= BYTES_MAX // 2:
            return data
        half = data[-BYTES_MAX // 2 :]
        return half[half.find(b"\n") + 1 :]

    def _give_up(self, error: OSError) -> None:
        self._off = True
        self._warn(f"it cannot be kept on disk and continues in memory: {error}")

    def _warn(self, what: str) -> None:
        warnings.warn(f"iteration log {self._name}: {what}", RuntimeWarning, stacklevel=4)


def _append(folder: int, name: str, data: bytes) -> bool:
    """Append to a file of our own; False where it has no room, or is something else."""
    fd = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FLAGS, 0o644, dir_fd=folder)
    try:
        found = os.fstat(fd)
        is_file = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        if not is_file or found.st_size + len(data) > BYTES_MAX:
            return False
        write_all(fd, data)
        os.fdatasync(fd)
    finally:
        os.close(fd)
    return True
