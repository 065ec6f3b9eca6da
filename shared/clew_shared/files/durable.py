"""Durable writes, for the files that clew writes besides SQLite's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def sync(path: Path) -> None:
    """Make a file's content, or the names in a folder, durable; raises OSError.

    Not for a file that SQLite has open in this process: closing a descriptor of it releases SQLite's locks.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unused_name(path: Path) -> Path:
    """Return the first of NAME, NAME.2, NAME.3, … that does not exist."""
    found, number = path, 1
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{path.name}.{number}")
    return found
