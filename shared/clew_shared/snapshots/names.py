"""File names as text: git's C-style quoting, so that any name fits in JSON and on one line.

Source: git-config(1), core.quotePath; quote.c of git.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
_BYTES = {letter: code for code, letter in _ESCAPES.items()}
_SPECIAL = re.compile(r'[\x00-\x1f\x7f"\\]')
_QUOTED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)


def quoted(name: bytes) -> str:
    """Return a name as text: itself, or quoted where it has control characters, quotes, or is not UTF-8."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = ""
    if text and not _SPECIAL.search(text):
        return text
    return '"' + "".join(map(_escaped, name)) + '"'


def unquoted(text: str) -> bytes:
    """Return the name that `quoted` has written."""
    if not (len(text) > 1 and text.startswith('"') and text.endswith('"')):
        return text.encode("utf-8", "surrogateescape")
    return _QUOTED.sub(
        lambda match: _unescaped(match[1]), text[1:-1].encode("utf-8", "surrogateescape")
    )


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


def _unescaped(code: bytes) -> bytes:
    if len(code) == 3:
        return bytes([int(code, 8) & 0xFF])
    return bytes([_BYTES[code.decode("latin-1")]])
