"""Durable writes, for the files that clew writes besides SQLite's own."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def closing(fd: int) -> Iterator[int]:
    """Close a descriptor with the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def sync(path: Path) -> None:
    """Make a file's content, or the names in a folder, durable; raises OSError.

    Not for a file that SQLite has open in this process: closing a descriptor of it releases SQLite's locks.
    """
    with closing(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Replace a file by this text (what UTF-8 lacks, escaped), durable on return; OSError leaves the old one."""
    part = path.with_name(f".{secrets.token_hex(8)}.tmp")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        sync(part)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    sync(path.parent)
