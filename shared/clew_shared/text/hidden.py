"""Takes the keys that are in use out of text, whatever they look like, and in the forms that tools give them.

The one thing in this package that is remembered for a whole process: which values are keys. Whoever holds a key
says so by `hide`, once; every text that is redacted goes by it from then on. Where keys come from is not known here.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HIDDEN_MAX = 64
KEY_CHARS_MIN = 8
WORD_CHARS_MAX = 20
FORM_CHARS_MIN = 12
PIECE_CHARS_MIN, PIECE_CHARS_MAX = 12, 24
PIECES_MAX = 32
_WORD = re.compile(r"[a-z_.-]*")
_BREAKS = ("", "\n", "\r\n", "\\n", "\\r\\n")
_BREAKS_BACK = tuple(each[::-1] for each in _BREAKS)

_hidden: dict[str, tuple[str, ...]] = {}


def hide(keys: Iterable[str]) -> None:
    """Let these values appear in no redacted text from now on; the newest HIDDEN_MAX are remembered.

    One that is shorter than 8 characters, or a word of lower-case letters (`ollama`, `not-needed`), is taken
    for a placeholder: to hide it would tear holes into ordinary text.
    """
    for key in keys:
        if is_secret(key) and key not in _hidden:
            _hidden[key] = tuple(dict.fromkeys(_forms(key)))
            while len(_hidden) > HIDDEN_MAX:
                del _hidden[next(iter(_hidden))]


def is_secret(key: str) -> bool:
    """Tell a key from a placeholder."""
    word = _WORD.fullmatch(key) is not None and len(key) <= WORD_CHARS_MAX
    return len(key) >= KEY_CHARS_MIN and not word


def names_hidden(text: str) -> bool:
    """Return whether a text holds a key that is hidden, in whole."""
    return any(form in text for forms in _hidden.values() for form in forms)


def without_hidden(text: str, instead: str) -> str:
    """Return the text with `instead` in the place of every hidden key, and of large pieces of one.

    A piece is what a cut has left, or lines that were broken within the key.
    """
    for forms in _hidden.values():
        for form in forms:
            text = _without_pieces(text.replace(form, instead), form, instead)
    return text


def _without_pieces(text: str, form: str, instead: str) -> str:
    size = min(len(form) // 2, PIECE_CHARS_MAX)
    if size < PIECE_CHARS_MIN:
        return text
    starts = [*range(0, len(form) - size, size), len(form) - size][-PIECES_MAX:]
    for start in starts:
        text = _without_piece(text, form, start, start + size, instead)
    return text


def _without_piece(text: str, form: str, start: int, end: int, instead: str) -> str:
    """Take out every `form[start:end]`, with as much of the form as stands before and after it."""
    piece, kept, at = form[start:end], [], 0
    room = len(form) * (1 + max(map(len, _BREAKS)))
    while (found := text.find(piece, at)) >= 0:
        behind = found + len(piece)
        left = text[max(at, found - room) : found][::-1]
        before = _follow(left, form[:start][::-1], _BREAKS_BACK)
        after = _follow(text[behind : behind + room], form[end:], _BREAKS)
        kept += [text[at : found - before], instead]
        at = behind + after
    return "".join(kept) + text[at:] if kept else text


def _follow(text: str, form: str, breaks: tuple[str, ...]) -> int:
    """Tell how far a text continues as the form does, line breaks in between not counted."""
    at = 0
    for char in form:
        skipped = next((len(b) for b in breaks if text.startswith(b + char, at)), None)
        if skipped is None:
            break
        at += skipped + 1
    return at


def _forms(key: str) -> Iterator[str]:
    """Write a key as tools do: as it is, in an address, in JSON, in hexadecimal, in base64 wherever it begins."""
    yield key
    yield quote(key, safe="")
    yield json.dumps(key)[1:-1]
    raw = key.encode()
    forms = [raw.hex(), raw.hex().upper()]
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw).decode()
        whole = encoded[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        forms += [whole, whole.replace("+", "-").replace("/", "_")]
    yield from (form for form in forms if len(form) >= FORM_CHARS_MIN)
