"""Removes the keys that are in use from text, in all forms in which tools write them.

`HIDDEN` is the process-wide registry of these keys. Where keys come from is not known here.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

HIDDEN_MAX = 64
FORM_CHARS_MIN = 12
PIECE_CHARS_MIN, PIECE_CHARS_MAX = 12, 24
PIECES_MAX = 32
_PLACEHOLDER = re.compile(r"[a-z_.-]{0,20}|.{0,7}", re.DOTALL)
_BREAKS = ("", "\n", "\r\n", "\\n", "\\r\\n")
_BREAKS_BACK = tuple(each[::-1] for each in _BREAKS)


class HiddenKeys:
    """The keys that appear in no redacted text; the newest HIDDEN_MAX are remembered."""

    def __init__(self) -> None:
        self._forms: dict[str, tuple[str, ...]] = {}

    def hide(self, keys: Iterable[str]) -> None:
        """Add keys; one that is shorter than 8 characters, or a lower-case word (`ollama`), counts as a placeholder.

        To hide a placeholder would tear holes into ordinary text.
        """
        for key in keys:
            if key not in self._forms and not _PLACEHOLDER.fullmatch(key):
                self._forms[key] = tuple(dict.fromkeys(_forms(key)))
                while len(self._forms) > HIDDEN_MAX:
                    del self._forms[next(iter(self._forms))]

    def named_in(self, text: str) -> bool:
        """Return whether a text holds a whole hidden key."""
        return any(form in text for forms in self._forms.values() for form in forms)

    def removed_from(self, text: str, instead: str) -> str:
        """Return the text with `instead` in the place of every hidden key, and of large pieces of one.

        A piece is what remains where a text was cut, or where lines were broken within the key.
        """
        for forms in self._forms.values():
            for form in forms:
                text = text.replace(form, instead)
                for start, end in _pieces(form):
                    text = _without_piece(text, form, start, end, instead)
        return text


HIDDEN = HiddenKeys()
"""The keys in use in this process, the one mutable global of clew: text is redacted at many places, and none may miss a
key. Written by `hide` where a key is read, before it is used; never cleared."""

hide = HIDDEN.hide


def _pieces(form: str) -> list[tuple[int, int]]:
    """Return the places of the pieces of a form that are looked for."""
    size = min(len(form) // 2, PIECE_CHARS_MAX)
    if size < PIECE_CHARS_MIN:
        return []
    starts = [*range(0, len(form) - size, size), len(form) - size][-PIECES_MAX:]
    return [(start, start + size) for start in starts]


def _without_piece(text: str, form: str, start: int, end: int, instead: str) -> str:
    """Replace every `form[start:end]`, with as much of the form as is before and after it."""
    piece, parts, at = form[start:end], [], 0
    room = len(form) * (1 + max(map(len, _BREAKS)))
    while (found := text.find(piece, at)) >= 0:
        behind = found + len(piece)
        left = text[max(at, found - room) : found][::-1]
        before = _follow(left, form[:start][::-1], _BREAKS_BACK)
        parts += [text[at : found - before], instead]
        at = behind + _follow(text[behind : behind + room], form[end:], _BREAKS)
    return "".join(parts) + text[at:] if parts else text


def _follow(text: str, form: str, breaks: tuple[str, ...]) -> int:
    """Return how far a text continues as the form does, ignoring line breaks in between."""
    at = 0
    for char in form:
        skipped = next((len(b) for b in breaks if text.startswith(b + char, at)), None)
        if skipped is None:
            break
        at += skipped + 1
    return at


def _forms(key: str) -> Iterator[str]:
    """Yield a key as tools write it: as it is, in an address, in JSON, in hexadecimal, in base64 wherever it begins."""
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
