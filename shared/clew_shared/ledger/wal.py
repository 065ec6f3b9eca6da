"""Finds durable transactions that SQLite's log has lost.

SQLite reads its log (the -wal file) up to the first frame whose checksum does not fit, and treats the rest as the
remains of a power cut. That is right if the rest is one transaction that was being written. But a transaction begins
only after the one before it was synced: if the rest contains a commit with frames after it, that commit was durable,
and the disk has damaged it since. Damage in the very last transaction cannot be told from a power cut.

It only reads files. Formats: https://sqlite.org/walformat.html
"""

from __future__ import annotations

import os
import struct
import threading
from dataclasses import dataclass
from pathlib import Path

_HEADER, _FRAME = 32, 24  # bytes, before all and before each page
_INDEX = 48  # bytes of the index's header
_LOOKS_MAX = 5
_Sums = tuple[int, int]
_reading = threading.Lock()
_held: dict[tuple[int, int], int] = {}
"""Descriptors of the indexes that were read, by device and inode: they stay open.

With the first descriptor of a file that it closes, a process loses all its locks on the file (fcntl(2)), SQLite's
too. The next process to open the ledger would then truncate the index while it is mapped here: SIGBUS.
"""


@dataclass(frozen=True)
class _Log:
    """The log as it is in the file; frames count from 1, as in SQLite."""

    data: bytes
    page: int  # bytes

    @property
    def frames(self) -> int:
        return max(0, len(self.data) - _HEADER) // (_FRAME + self.page)

    @property
    def order(self) -> str:
        return ">" if self.data[3] & 1 else "<"

    @property
    def salts(self) -> bytes:
        return self.data[16:24]

    def at(self, frame: int) -> int:
        return _HEADER + (frame - 1) * (_FRAME + self.page)

    def is_ours(self, frame: int) -> bool:
        at = self.at(frame)
        return self.data[at + 8 : at + 16] == self.salts

    def is_commit(self, frame: int) -> bool:
        at = self.at(frame)
        return self.data[at + 4 : at + 8] != bytes(4)

    def sums(self, frame: int) -> _Sums:
        """Return the checksum that stands in a frame; of frame 0 the header's."""
        at = self.at(frame) + 16 if frame else 24
        first, second = struct.unpack_from(">2I", self.data, at)
        return first, second

    def follows(self, frame: int) -> bool:
        """Return whether a frame's checksum continues from the one before it."""
        at = self.at(frame)
        head, page = self.data[at : at + 8], self.data[at + _FRAME : at + _FRAME + self.page]
        return _sums(head + page, self.order, self.sums(frame - 1)) == self.sums(frame)

    def has_sound_header(self) -> bool:
        return _sums(self.data[:24], self.order, (0, 0)) == self.sums(0)


def lost_commits(ledger: Path, page_bytes: int) -> str:
    """Return what the log of an opened ledger has lost, "" for nothing.

    What follows the valid part counts only if that part has not moved during the check; the check is repeated while
    another process writes.
    """
    log_path, index_path = (Path(f"{ledger}{suffix}") for suffix in ("-wal", "-shm"))
    for _ in range(_LOOKS_MAX):
        try:
            index = _head(index_path)
            log = _Log(log_path.read_bytes(), page_bytes)
            again = _head(index_path)
        except FileNotFoundError:
            return ""
        if index == again and len(index) == _INDEX:
            return _lost(log, index)
    return ""  # it is written all the time, so it is in use, and is read as it is


def is_overwritten(ledger: Path) -> bool:
    """Return whether the log of an open ledger was cut off or written over: it is not what its index says."""
    log_path, index_path = (Path(f"{ledger}{suffix}") for suffix in ("-wal", "-shm"))
    try:
        index = _head(index_path)
        with log_path.open("rb") as log:
            salts, size = log.read(_HEADER)[16:24], os.fstat(log.fileno()).st_size
        if len(index) < _INDEX or index != _head(index_path):
            return False  # it is being written: the next check decides
    except OSError:
        return False  # it cannot be read
    page, valid = struct.unpack_from("=HI", index, 14)
    page = 65_536 if page == 1 else page
    return valid > 0 and (salts != index[32:40] or size < _HEADER + valid * (_FRAME + page))


def _head(index: Path) -> bytes:
    """Return the head of an index, without releasing a lock on it."""
    info = index.stat()
    at = (info.st_dev, info.st_ino)
    with _reading:
        if at not in _held:
            for gone in [one for one, fd in _held.items() if not os.fstat(fd).st_nlink]:
                os.close(_held.pop(gone))  # it cannot be opened any more
            _held[at] = os.open(index, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(_held[at], _INDEX, 0)


def _lost(log: _Log, index: bytes) -> str:
    if not log.frames:
        return ""
    if not log.has_sound_header():
        behind = any(log.follows(frame) for frame in range(1, log.frames + 1))
        behind = behind or log.is_ours(1)
        return "its header is damaged, and frames follow it" if behind else ""
    if index[32:40] != log.salts:
        return ""  # all of it is in the database, and its room is about to be reused
    valid: int = struct.unpack_from("=I", index, 16)[0]
    for frame in range(valid + 1, log.frames):
        ours = log.is_ours(frame) and log.is_ours(frame + 1)
        if ours and log.is_commit(frame) and log.follows(frame + 1):
            return f"frame {valid + 1} (byte {log.at(valid + 1)}) is damaged, and commits follow it"
    return ""


def _sums(data: bytes, order: str, start: _Sums) -> _Sums:
    """Return SQLite's checksum of the log: two sums, each of which takes in the other."""
    first, second = start
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
