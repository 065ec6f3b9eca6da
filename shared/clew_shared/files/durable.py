"""Durable writes, for the files that clew writes besides SQLite's own."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
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


def write_json(path: Path, content: object) -> None:
    """Write a whole file of JSON, durable when it returns; raises OSError."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(json.dumps(content))
    sync(draft)
    draft.replace(path)
    sync(path.parent)


def unused_name(path: Path) -> Path:
    """Return the first of NAME, NAME.2, NAME.3, … that does not exist."""
    others = (path.with_name(f"{path.name}.{number}") for number in itertools.count(2))
    return next(one for one in itertools.chain([path], others) if not os.path.lexists(one))
