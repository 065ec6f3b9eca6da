"""The text of a unified diff: redacted, harmless for a terminal, coloured there, in bounded memory."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from clew_daemon.reading.sanitize import clean
from clew_shared.text.redact import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BYTES_MAX = 64 << 20
"""A larger diff is cut, with a note."""

BLOCK_CHARS = 1 << 16
BLOCK_CHARS_MAX = 4 << 20
"""A text is redacted in blocks, which end before a file or a hunk, so that no key is cut in two."""

TOO_LARGE = (
    f"… the rest is left out: the diff is over {BYTES_MAX >> 20} MiB; --stat lists all files\n"
)
_HUNK, _FILE = "@@ ", "diff --git "
_KEY, _KEY_CHARS = "-----BEGIN ", 20_000
_COLOURS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}
_BOLD, _PLAIN = "\x1b[1m", "\x1b[m"


def patch_lines(pieces: Iterable[bytes], *, colour: bool) -> Iterator[str]:
    """Yield the lines of a diff that git printed, each with its end."""
    in_hunk = False
    for block in _blocks(_texts(pieces)):
        for line in redact(block).removesuffix("\n").split("\n"):
            in_hunk = not line.startswith(_FILE) and (in_hunk or line.startswith(_HUNK))
            shown = harmless(line)
            yield (_coloured(shown, in_hunk=in_hunk) if colour else shown) + "\n"


def harmless(line: str) -> str:
    """Return a line with control characters spelled out; tabs stay, and so does a carriage return at its end."""
    end = "\r" if line.endswith("\r") else ""
    return "\t".join(map(clean, line.removesuffix("\r").split("\t"))) + end


def _coloured(line: str, *, in_hunk: bool) -> str:
    style = _COLOURS.get(line[:1], "") if in_hunk else _BOLD
    return f"{style}{line}{_PLAIN}" if style and line else line


def _texts(pieces: Iterable[bytes]) -> Iterator[str]:
    """Decode pieces of UTF-8, other bytes spelled out; end with a note where there are too many."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > BYTES_MAX:
            yield f"\n{TOO_LARGE}"
            return
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


def _blocks(texts: Iterable[str]) -> Iterator[str]:
    """Join texts to blocks of whole lines."""
    parts: list[str] = []
    size, enough = 0, BLOCK_CHARS
    for text in texts:
        parts.append(text)
        size += len(text)
        if size < enough:
            continue
        block = "".join(parts)
        at = _cut(block)
        parts, size = [block[at:]], len(block) - at
        enough = max(
            BLOCK_CHARS, 2 * size
        )  # a block that cannot be cut is not searched again at once
        if at:
            yield block[:at]
    if rest := "".join(parts):
        yield rest


def _cut(text: str) -> int:
    """Return where to cut a text: before its last file or hunk, or between lines if it is too large; 0 for nowhere."""
    if at := max(text.rfind("\n" + start) for start in (_FILE, _HUNK)) + 1:
        return at
    if len(text) < BLOCK_CHARS_MAX:
        return 0
    key = text.rfind(_KEY, len(text) - _KEY_CHARS)  # it may go on in what is not read yet
    return text.rfind("\n", 0, key if key > 0 else len(text)) + 1
