"""File names as text: git's C-style quoting, so that any name fits in JSON and on one line.

Source: git-config(1), core.quotePath; quote.c of git.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

One = TypeVar("One")
_LETTERS = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
_ESCAPED = {byte: chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}" for byte in range(256)}
_ESCAPED |= {byte: f"\\{letter}" for byte, letter in _LETTERS.items()}
_SPECIAL = re.compile(r'[\x00-\x1f\x7f"\\]')


def quoted(name: bytes) -> str:
    """Return a name as text: itself, or quoted where it has control characters, quotes, or is not UTF-8."""
    with suppress(UnicodeDecodeError):
        if (text := name.decode()) and not _SPECIAL.search(text):
            return text
    return f'"{"".join(map(_ESCAPED.__getitem__, name))}"'


def unquoted(text: str) -> bytes:
    """Return the name that `quoted` has written."""
    if len(text) > 1 and text.startswith('"') and text.endswith('"'):
        name: bytes = ast.literal_eval(f"b{text}")  # no codec has to be loaded
        return name
    return text.encode("utf-8", "surrogateescape")


def folders_above(name: str) -> Iterator[str]:
    """Yield the folders above a quoted name, quoted, the deepest first."""
    path = unquoted(name)
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield quoted(path)


def batches(
    them: Iterable[One], size: Callable[[One], int], most: int, room: int
) -> Iterator[list[One]]:
    """Yield all items in lists, each within the limits on its number and its total size if it has more than one."""
    batch, left = list[One](), room
    for one in them:
        left -= size(one)
        if batch and (left < 0 or len(batch) >= most):
            yield batch
            batch, left = [], room - size(one)
        batch.append(one)
    if batch:
        yield batch


def fitting(them: Iterable[One], size: Callable[[One], int], most: int, room: int) -> list[One]:
    """Return the first items, as many as the limits on their number and their total size allow, at least one."""
    return next(batches(them, size, most, room), [])
