"""Takes keys out of text before it is written where others may read it.

A pure rule over strings: it knows the shapes of keys, not where they come from. It is conservative:
a commit hash, a digest or a word must come through, because a log that hides evidence is no log.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

REDACTED = "[redacted]"
MIN_KNOWN_CHARS = 6
"""A known secret shorter than this would tear holes into ordinary words."""

_HINTS = (
    *("sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "hf_", "gsk_"),
    *("_live_", "npm_", "pypi-", "akia", "asia", "aiza", "eyj", "private key", "authorization"),
    *("bearer", "key", "secret", "token", "passw", "://"),
)
"""Text without any of these holds no key; to look for them first makes the common case cheap."""

_TOKEN = r"[A-Za-z0-9._~+/=-]"  # noqa: S105 - the letters of a token, no token
_WITH_DIGIT = r"(?=[A-Za-z._~+/=-]{0,200}\d)"
_START = r"(?<![A-Za-z0-9])"
_KEY_NAMES = (
    r"api[_-]?key|secret[_-]?key|access[_-]?key|private[_-]?key|client[_-]?secret"
    r"|access[_-]?token|auth[_-]?token|refresh[_-]?token|secret|password|passwd"
)
_GIVES = r"[\"']?\s{0,3}[:=]\s{0,3}"

# What stands before it says that it is a secret; only the value goes.
_SCHEME = (
    rf"(?P<scheme>\b(?:proxy-)?authorization\b{_GIVES}[\"']?(?:[a-z]{{1,20}}\s)?){_TOKEN}{{6,}}"
)
_BEARER = rf"(?P<bearer>\bbearer\s{{1,3}})(?:{_WITH_DIGIT}{_TOKEN}{{8,}}|{_TOKEN}{{20,}})"
_NAMED = (
    rf"(?P<name>{_START}(?:[A-Za-z0-9]{{1,30}}[_-]){{0,4}}(?:{_KEY_NAMES}){_GIVES})"
    rf"(?:(?P<quote>[\"'])[^\"'\s\\]{{6,}}(?P=quote)|{_WITH_DIGIT}{_TOKEN}{{8,}}(?![(\[]))"
)
_IN_URL = r"(?P<url>\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@\"']{0,200}:)[^\s/@\"']{1,500}(?=@)"

# The makers' own prefixes; a digit is asked for where the prefix alone could begin a word.
_PREFIXES = "glpat-|xox[abeprs]-|hf_|gsk_|sk_live_|rk_live_|npm_|pypi-"
_PEM = "-----{} [A-Z ]{{0,30}}PRIVATE KEY-----"
_SHAPES = (
    rf"{_START}sk-{_WITH_DIGIT}[A-Za-z0-9_-]{{12,}}",
    rf"{_START}(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{{16,}}",
    rf"{_START}(?:{_PREFIXES}){_WITH_DIGIT}[A-Za-z0-9_-]{{16,}}",
    rf"{_START}(?-i:A(?:KIA|SIA)[0-9A-Z]{{16}}(?![0-9A-Z]))",
    rf"{_START}AIza[A-Za-z0-9_-]{{35}}",
    r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    rf"{_PEM.format('BEGIN')}[^-]{{0,16384}}(?:{_PEM.format('END')})?",
)
_SECRET = re.compile(
    "|".join((_SCHEME, _BEARER, _NAMED, _IN_URL, *_SHAPES)), re.IGNORECASE | re.ASCII
)
_LABELS = ("scheme", "bearer", "name", "url")


def redact(text: str, known: Iterable[str] = ()) -> str:
    """`text` with whatever looks like a key, and every secret in `known`, taken out.

    Shapes: `sk-…`, `ghp_…`, `AKIA…`, JSON web tokens, private keys, `Bearer …`, `api_key=…`,
    passwords in addresses. Doing it twice changes nothing more.
    """
    for secret in known:
        if len(secret) >= MIN_KNOWN_CHARS:
            text = text.replace(secret, REDACTED)
    low = text.lower()
    if not any(hint in low for hint in _HINTS):
        return text
    return _SECRET.sub(_without_value, text)


def _without_value(found: re.Match[str]) -> str:
    label = next((found[name] for name in _LABELS if found[name] is not None), "")
    quote = found["quote"] or ""
    return f"{label}{quote}{REDACTED}{quote}"


def redacted(value: Any) -> Any:
    """Take keys out of every text of a JSON value."""
    match value:
        case str():
            return redact(value)
        case dict():
            return {key: redacted(inner) for key, inner in value.items()}
        case list():
            return [redacted(inner) for inner in value]
        case _:
            return value
