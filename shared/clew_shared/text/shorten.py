"""Shortens texts that are too long for where they are shown; what fits is returned as it is. Pure.

All lengths are in characters, and no result is longer than `max_chars`, which is at least 1. Redact a text before it
is shortened: half a key is not recognised any more.
"""

import re

_OWN_FILES = re.compile(r"^(?:[^\s:]*/)?\.agent_context/.*\n?", re.MULTILINE)


def without_own_files(text: str) -> str:
    """Return a text without lines of clew's own files, as `grep -r` finds them: they say nothing of the work."""
    return _OWN_FILES.sub("", text) if ".agent_context/" in text else text


def one_line(text: str) -> str:
    return " ".join(text.split())


def beginning(text: str, max_chars: int) -> str:
    """Return the beginning of a text, with an ellipsis where more follows."""
    return text if len(text) <= max_chars else text[: max(max_chars - 1, 0)] + "…"


def in_one_line(text: str, max_chars: int) -> str:
    return beginning(one_line(text), max_chars)


def is_told(text: str, *others: str | None) -> bool:
    """Return whether a text is in one of others; white space and a cut end do not count."""
    said = " ".join(text.split()).rstrip(".…")
    return any(said in " ".join(other.split()) for other in others if other)


def both_ends(text: str | None, max_chars: int) -> str:
    """Return the first third and the last two thirds, stripped: an error is named at the end of an output."""
    text = (text or "").strip()
    if len(text) <= max_chars:
        return text
    first = max_chars // 3
    last = max_chars - first - len(" … ")
    return f"{text[:first]} … {text[-last:]}" if last > 0 else beginning(text, max_chars)


def without_middle(text: str, max_chars: int) -> str:
    """Return the first two thirds and the last third, with the number of characters left out between them."""
    if len(text) <= max_chars:
        return text
    mark = f"\n[… {len(text) - max_chars} characters left out …]\n"
    room = max(max_chars - len(mark), 0)
    tail = room - room * 2 // 3
    end = text[-tail:] if tail else ""
    return (text[: room - tail] + mark + end)[: max(max_chars, 0)]
