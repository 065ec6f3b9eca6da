"""Texts of others and numbers, as a terminal may show them."""

import unicodedata

from clew_shared.text.shorten import beginning
from clew_shared.text.words import one_line


def counted(count: int, one: str) -> str:
    """Return a count with its noun: `1 goal`, `2 goals`."""
    return f"{count} {one}{'' if count == 1 else 's'}"


def duration(seconds: float, *, whole: bool = False) -> str:
    """Return a time in its two largest units: `3.2 s`, `4 min 10 s`, `2 h 5 min`, `3 d 4 h`; `whole` drops tenths."""
    seconds = int(seconds) if whole else round(seconds, 1)
    if seconds < 60:
        return f"{seconds} s" if whole else f"{seconds:.1f} s"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour} h"
    return f"{hours} h {minute} min" if hours else f"{minutes} min {second} s"


def thousands(count: int) -> str:
    """Return a number of tokens in about three digits: `812`, `3.4k`, `34k`."""
    if count < 1_000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 9_950 else f"{count / 1000:.0f}k"


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
