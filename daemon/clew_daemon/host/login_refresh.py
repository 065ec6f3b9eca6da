"""Refreshed tokens of a coding agent: written back to the user's login file, if nothing but tokens has changed.

What the CLI left in its private HOME is not trusted.
"""

from __future__ import annotations

import json
import os
import re
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from clew_shared.files.durable import sync

if TYPE_CHECKING:
    from pathlib import Path

_TOKEN_FIELD = re.compile(r"token|access|refresh|expires|expiry", re.IGNORECASE)
TOKEN_CHARS_MAX = 16_384


def only_tokens_differ(old: str, new: str) -> bool:
    """Return whether two texts are the same JSON object but for the values of token fields, and do differ."""
    try:
        before, after = json.loads(old), json.loads(new)
    except (ValueError, RecursionError):
        return False
    is_object = isinstance(before, dict) and isinstance(after, dict)
    return is_object and before != after and _alike(before, after)


def _alike(old: Any, new: Any, *, token: bool = False) -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(
            _alike(value, new[key], token=bool(_TOKEN_FIELD.search(key)))
            for key, value in old.items()
        )
    if old == new:
        return True
    same_kind = type(old) is type(new) and isinstance(old, str | int | float)
    return token and same_kind and len(str(new)) <= TOKEN_CHARS_MAX


def write_back(path: Path, old: str, new: str) -> str:
    """Replace the text of a login file that is still `old` by `new`, atomically; return why not, "" if it was done."""
    if not only_tokens_differ(old, new):
        return "more than its tokens differs"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                return "it is not a regular file"
            if file.read(len(old.encode()) + 1) != old.encode():
                return "it was changed meanwhile"
        _replace(path, new, stat.S_IMODE(info.st_mode))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _replace(path: Path, text: str, mode: int) -> None:
    """Write beside the file and rename; durable before it is the file."""
    part = path.with_name(f".{path.name}.clew-{os.getpid()}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(part, flags, mode & 0o700), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise
    sync(path.parent)
