"""A note beside the ledger with its last event: a ledger that ends before it lacks recorded events.

It is written after durable commits only, so it is never ahead of its ledger. After a crash or a power cut it may be
old or missing: then it only proves less.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from clew_shared.files.durable import sync

SUFFIX = ".head"
_BYTES_MAX = 4_096


@dataclass(frozen=True, slots=True)
class Note:
    """The last durable event, by number and hash (in hexadecimal).

    `open`: the newest events may be in SQLite's log only, since the ledger was not closed after the note; `file` and
    `log` are then the inodes of the two; `log` is 0 if the log was empty, and the file had everything.
    """

    seq: int
    hash: str
    open: bool = True
    file: int = 0
    log: int = 0


def beside(ledger: Path) -> Path:
    """Return where the note of a ledger is."""
    return ledger.with_name(ledger.name + SUFFIX)


def read(ledger: Path) -> Note | None:
    """Return the note, None if there is none or it cannot be read."""
    try:
        with beside(ledger).open("rb") as file:
            found = json.loads(file.read(_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return None
    match found:
        case {
            "seq": int(seq),
            "hash": str(tip),
            "open": bool(is_open),
            "file": int(inode),
            "log": int(log),
        }:
            return Note(seq, tip, is_open, inode, log)
        case _:
            return None


def write(ledger: Path, note: Note, *, folder: int | None = None, durable: bool = False) -> None:
    """Replace the note at once or not at all; raises OSError.

    `folder` is a descriptor of the ledger's folder, where that must not be another one of its name.
    """
    name = ledger.name + SUFFIX
    fd = (
        os.open(ledger.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        if folder is None
        else folder
    )
    part = f".{name}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        out = os.open(part, flags, 0o600, dir_fd=fd)
        try:
            os.write(out, json.dumps(asdict(note)).encode() + b"\n")
            if durable:
                os.fsync(out)
        finally:
            os.close(out)
        os.replace(part, name, src_dir_fd=fd, dst_dir_fd=fd)
    finally:
        if folder is None:
            os.close(fd)
    if durable:
        sync(Path(f"/proc/self/fd/{fd}") if folder is not None else ledger.parent)


def drop(ledger: Path) -> None:
    """Remove the note, if there is one."""
    with suppress(FileNotFoundError):
        beside(ledger).unlink()
