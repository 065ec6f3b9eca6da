"""Texts of goals, agents and commands, escaped for a Markdown report: they can add no headings, tables, HTML or links.

Pure.
"""

from __future__ import annotations

import re

from clew_shared.text.redact import redact
from clew_shared.text.shorten import beginning, one_line

LINE_CHARS = 200

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, C1 included
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # reordering and invisible ones
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_BLOCK = re.compile(r"\s*([#>+*=|~`-]|\d{1,9}[.)](?!\S))")
_HTML = re.compile(r"(\\*)<(?=[A-Za-z/!?])")
_LINK = re.compile(r"(\\*)\](?=[(\[:]|$)")  # a report may put a colon behind the text


def visible(text: str) -> str:
    """Return the text with a replacement character for every invisible or reordering character."""
    return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", text)


def inline(text: str, chars: int = LINE_CHARS) -> str:
    """Return one line of at most `chars` characters that begins no block and contains no HTML and no link."""
    line = _line(text, chars)
    if begun := _BLOCK.match(line):
        line = f"{line[: begun.end() - 1]}\\{line[begun.end() - 1 :]}"
    # a backslash in the text must not escape ours
    return _LINK.sub(r"\1\1\\]", _HTML.sub(r"\1\1\\<", line))


def _line(text: str, chars: int) -> str:
    return beginning(redact(one_line(visible(text))), chars)


def code(text: str, chars: int = LINE_CHARS) -> str:
    """Return one line as code, which it cannot close."""
    line = _line(text, chars).replace("`", "'")
    return f"`{line}`"


def quoted(text: str, chars: int = LINE_CHARS) -> str:
    """Return a text of several lines as a quotation, `chars` of each line, which stay lines of their own."""
    return "  \n".join(f"> {inline(line, chars)}".rstrip() for line in text.splitlines())
