"""Texts of the system and of git, as a person or a record can have them. Pure."""

import re

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# What a branch has not in its name: git-check-ref-format(1), and its length.
_NO_BRANCH = re.compile(
    r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|^[-/.]|[/.]$|^@$|^$|^.{1001,}"
)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, C1 included
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"  # reordering and invisible ones
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def plain(error: BaseException) -> str:
    """Return an error's message; for one of the system: `permission denied: PATH`."""
    if not (isinstance(error, OSError) and error.strerror):
        return str(error)
    words = error.strerror[:1].lower() + error.strerror[1:]
    paths = [name for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([words, *(_shown(path) for path in paths)])


def recordable(text: str) -> str:
    """Return text as JSON and the ledger can hold it: a path or a file name may have bytes that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def visible(text: str) -> str:
    """Return the text with a replacement character for every invisible or reordering character."""
    return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _shown(path: object) -> str:
    name = path.decode("utf-8", "backslashreplace") if isinstance(path, bytes) else str(path)
    return recordable(name)


def percent(share: float) -> str:
    """Return a share of 1 as a percentage; only the whole is 100%."""
    return "100%" if share >= 1 else f"{min(round(share * 100), 99)}%"


def commit_name(text: str) -> str:
    """Return the full name of a commit as git states it, "" where a text is none."""
    return text if _COMMIT.fullmatch(text) else ""


def branch_name(text: str) -> str:
    """Return the name of a branch that git would make, "" for any other text; a shell may still read it otherwise."""
    return text if text.isprintable() and not _NO_BRANCH.search(text) else ""
