"""Texts of others, as a terminal may show them."""

import unicodedata

from clew_shared.text.shorten import beginning
from clew_shared.text.words import one_line

SHOWN_CHARS = 100


def clean(text: str, *, lines: bool = False) -> str:
    r"""Return the text with every control character escaped (`\x1b`); `lines` keeps new lines, else each has a mark.

    Bidirectional overrides, line separators and lone surrogates are escaped, too. Tabs become a space.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text if lines or "\n" not in text else one_line(text)
    return "".join(_shown(char, lines=lines) for char in text)


def short(text: str, chars: int = SHOWN_CHARS) -> str:
    """Return the text cleaned, on one line, and shortened with an ellipsis where it is longer."""
    return beginning(clean(text[: chars + 1].replace("\r\n", "\n")), chars)


def _shown(char: str, *, lines: bool) -> str:
    if char.isprintable() or (lines and char == "\n"):
        return char
    if char in "\t\n\r" and not (char == "\r" and lines):
        return " "
    if unicodedata.category(char) == "Zs":
        return char
    return char.encode("unicode_escape").decode("ascii")
