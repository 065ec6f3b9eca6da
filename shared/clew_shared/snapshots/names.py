"""File names as text: git's C-style quoting, so that any name fits in JSON and on one line.

Source: git-config(1), core.quotePath; quote.c of git.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

One = TypeVar("One")
_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
_SPECIAL = re.compile(r'[\x00-\x1f\x7f"\\]')


def quoted(name: bytes) -> str:
    """Return a name as text: itself, or quoted where it has control characters, quotes, or is not UTF-8."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = ""
    return text if text and not _SPECIAL.search(text) else f'"{"".join(map(_escaped, name))}"'


def unquoted(text: str) -> bytes:
    """Return the name that `quoted` has written."""
    if len(text) > 1 and text.startswith('"') and text.endswith('"'):
        name: bytes = ast.literal_eval(
            f"b{text}"
        )  # the same escapes; a codec would have to be loaded
        return name
    return text.encode("utf-8", "surrogateescape")


def folders_above(name: str) -> Iterator[str]:
    """Yield the folders above a quoted name, quoted, the deepest first."""
    path = unquoted(name)
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield quoted(path)


def _escaped(byte: int) -> str:
    if byte in _ESCAPES:
        return "\\" + _ESCAPES[byte]
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"


def fitting(them: Iterable[One], size: Callable[[One], int], most: int, room: int) -> Iterator[One]:
    """Yield the first items, as many as the limits on their number and their total length allow."""
    for one in islice(them, most):
        room -= size(one)
        if room < 0:
            return
        yield one
