"""Names of commits and branches as a repository states them; its text is not trusted.

Source: git-check-ref-format(1).
"""

from __future__ import annotations

import re

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_NOT_IN_REFS = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)")
_BRANCH_CHARS_MAX = 1000


def commit_name(text: str) -> str:
    """Return the full name of a commit, "" where a text is none."""
    return text if _COMMIT.fullmatch(text) else ""


def branch_name(text: str) -> str:
    """Return the name of a branch that git would make, "" for any other text; a shell may still read it otherwise."""
    is_bad = (
        _NOT_IN_REFS.search(text)
        or text.startswith(("-", "/", "."))
        or text.endswith(("/", "."))
        or text == "@"
        or not text.isprintable()
        or len(text) > _BRANCH_CHARS_MAX
    )
    return "" if is_bad else text
