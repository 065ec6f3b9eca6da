"""Removes keys from text before it is written where others may read it: those in use, and what has the shape of one.

It is conservative: a commit hash, a digest or a word stays, because a log must not hide evidence.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

REDACTED = "[redacted]"
HIDDEN_MAX = 64
FORM_CHARS_MIN = 12
PIECE_CHARS_MIN, PIECE_CHARS_MAX = 12, 24
PIECES_MAX = 32
_PLACEHOLDER = re.compile(r"[a-z_.-]{0,20}|.{0,7}", re.DOTALL)
_BREAKS = ("", "\n", "\r\n", "\\n", "\\r\\n")
_BREAKS_BACK = tuple(each[::-1] for each in _BREAKS)


# The keys in use in this process and their forms, the one mutable global of clew: text is redacted at many places, and
# none may miss a key. Written by `hide` where a key is read, before it is used; never cleared.
_hidden: dict[str, tuple[str, ...]] = {}


def hide(keys: Iterable[str]) -> None:
    """Add keys, of which the newest HIDDEN_MAX are kept; a placeholder (short, or a word) would tear holes."""
    for key in keys:
        if key not in _hidden and not _PLACEHOLDER.fullmatch(key):
            _hidden[key] = tuple(dict.fromkeys(_forms(key)))
            while len(_hidden) > HIDDEN_MAX:
                del _hidden[next(iter(_hidden))]


def has_hidden(text: str) -> bool:
    """Return whether a text holds a whole key in use."""
    return any(form in text for forms in list(_hidden.values()) for form in forms)


def _without_hidden(text: str) -> str:
    """Return the text without keys in use and large pieces of one: it was cut, or its lines broken within the key."""
    for form in (form for forms in list(_hidden.values()) for form in forms):
        text = text.replace(form, REDACTED)
        for start, end in _pieces(form):
            text = _without_piece(text, form, start, end)
    return text


def _pieces(form: str) -> list[tuple[int, int]]:
    size = min(len(form) // 2, PIECE_CHARS_MAX)
    if size < PIECE_CHARS_MIN:
        return []
    starts = [*range(0, len(form) - size, size), len(form) - size][-PIECES_MAX:]
    return [(start, start + size) for start in starts]


def _without_piece(text: str, form: str, start: int, end: int) -> str:
    """Replace every `form[start:end]`, with as much of the form as is before and after it."""
    piece, parts, at = form[start:end], [], 0
    room = len(form) * (1 + max(map(len, _BREAKS)))
    while (found := text.find(piece, at)) >= 0:
        behind = found + len(piece)
        left = text[max(at, found - room) : found][::-1]
        before = _follow(left, form[:start][::-1], _BREAKS_BACK)
        parts += [text[at : found - before], REDACTED]
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


_HINTS = (  # text without any of these holds no key; looking for them first makes the common case cheap
    *("sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "hf_", "gsk_"),
    *("_live_", "npm_", "pypi-", "akia", "asia", "aiza", "eyj", "private key", "authorization"),
    *("bearer", "key", "secret", "token", "passw", "://", "xapp-", "ya29.", "gocspx-", "sg."),
    *("hvs.", "dop_v1_", "dckr_pat_", "shpat_", "lin_api_", "xai-", "pplx-", "cookie", "pwd"),
    "passphrase",
)
_TOKEN = r"[A-Za-z0-9._~+/=-]"  # noqa: S105 - the letters of a token, no token
_WITH_DIGIT = r"(?=[A-Za-z._~+/=-]{0,64}\d)"
_START = r"(?<![A-Za-z0-9])"
_KEY_NAMES = (
    r"api[_-]?key|secret[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key|signing[_-]?key"
    r"|client[_-]?secret|(?:access|auth|api|bot|refresh|session|deploy|registry)[_-]?token"
    r"|(?:github|gitlab|slack|npm|hf)[_-]?token|secret|passwords?|pgpassword|passwd|passphrase|mysql_pwd"
)
_GIVES = r"\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}"

# The text before the value marks it as a secret; only the value is removed.
_SCHEME = rf"(?P<scheme>\b(?:proxy-)?authorization\b{_GIVES}\\{{0,3}}[\"']?(?:[a-z]{{1,20}}\s)?){_TOKEN}{{6,}}"
_BEARER = rf"(?P<bearer>\bbearer\s{{1,3}})(?:{_WITH_DIGIT}{_TOKEN}{{8,}}|{_TOKEN}{{20,}})"
_NAMED = (
    rf"(?P<name>{_START}(?:[A-Za-z0-9]{{1,30}}[_-]){{0,4}}(?:{_KEY_NAMES}){_GIVES})"
    rf"(?:(?P<quote>\\{{0,3}}[\"'])[^\"'\s\\]{{6,}}(?P=quote)|{_WITH_DIGIT}{_TOKEN}{{8,}}(?![(\[]))"
)
_NETRC = r"(?P<netrc>\bmachine\s{1,3}\S{1,200}\s{1,9}login\s{1,3}\S{1,200}\s{1,9}password\s{1,3})\S{4,500}"
_COOKIE = r"(?P<cookie>\b(?:set-)?cookie:\s{0,3})(?=[^\s=;]{1,80}=)[^\r\n\"']{8,4096}"
_IN_URL = r"(?P<url>\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@\"']{0,200}:)[^\s/@\"']{1,500}(?=@)"

# Vendors' prefixes; a digit is required where the prefix alone could begin a word.
_PREFIXES = (
    r"glpat-|xox[abeprs]-|xapp-|hf_|gsk_|[srp]k_live_|npm_|pypi-|gocspx-|dop_v1_|dckr_pat_|shpat_|lin_api_"
    r"|xai-|pplx-|hvs\."
)
_PEM = "-----{} [A-Z ]{{0,30}}PRIVATE KEY(?: BLOCK)?-----"
_SHAPES = (
    rf"{_START}sk-{_WITH_DIGIT}[A-Za-z0-9_-]{{12,}}",
    rf"{_START}(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{{16,}}",
    rf"{_START}(?:{_PREFIXES}){_WITH_DIGIT}[A-Za-z0-9_-]{{16,}}",
    rf"{_START}(?-i:A(?:KIA|SIA)[0-9A-Z]{{16}}(?![0-9A-Z]))",
    rf"{_START}AIza[A-Za-z0-9_-]{{35}}",
    rf"{_START}ya29\.[A-Za-z0-9_-]{{20,}}",
    rf"{_START}(?-i:SG\.[A-Za-z0-9_-]{{16,32}}\.[A-Za-z0-9_-]{{16,64}})",
    rf"{_START}(?-i:AGE-SECRET-KEY-1[0-9A-Z]{{50,}})",
    r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    rf"{_PEM.format('BEGIN')}(?:(?!-----END)[\s\S]){{0,16384}}(?:{_PEM.format('END')})?",
)
_SECRET = re.compile(
    "|".join((_SCHEME, _BEARER, _NAMED, _NETRC, _COOKIE, _IN_URL, *_SHAPES)),
    re.IGNORECASE | re.ASCII,
)
NAMES = re.compile(
    rf"(?:[A-Za-z0-9]{{1,30}}[_-]){{0,4}}(?:{_KEY_NAMES}|authorization)", re.IGNORECASE
)
VALUE_CHARS_MIN = 6
KEY_CHARS_MIN = 8
"""No key in use is shorter, and no shape either: the shortest is an address with a password, `ab://:p@`."""
_LABELS = ("scheme", "bearer", "name", "netrc", "cookie", "url")


def redact(text: str) -> str:
    """Return the text without the keys in use and without anything that has the shape of a key; idempotent."""
    if len(text) < KEY_CHARS_MIN:
        return text
    if _hidden:
        text = _without_hidden(text)
    return _SECRET.sub(_without_value, text) if _has_hint(text) else text


def _has_hint(text: str) -> bool:
    return any(map(text.lower().__contains__, _HINTS))


def _without_value(found: re.Match[str]) -> str:
    label = next((found[name] for name in _LABELS if found[name] is not None), "")
    quote = found["quote"] or ""
    return f"{label}{quote}{REDACTED}{quote}"


def redacted(value: Any) -> Any:
    """Return JSON values with their texts redacted; what holds no key is returned as it is."""
    whole = repr(value)  # a text in it is written as it is, unless a backslash is needed
    may_hold = "\\" in whole or _has_hint(whole) or _without_hidden(whole) != whole
    return _redacted(value) if may_hold else value


def _redacted(value: Any) -> Any:
    match value:
        case str():
            return redact(value)
        case dict():
            return {redact(str(key)): _named(str(key), inner) for key, inner in value.items()}
        case list():
            return [_redacted(inner) for inner in value]
    return value


def _named(name: str, value: Any) -> Any:
    """Return the value, replaced where its name marks it as a secret; by itself it need not look like one."""
    is_secret = isinstance(value, str) and len(value) >= VALUE_CHARS_MIN and NAMES.fullmatch(name)
    return REDACTED if is_secret else _redacted(value)
