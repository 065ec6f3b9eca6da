"""Receipts: short answers that differ from each other by fresh ids alone ("message sent", "file uploaded").

An id is opaque: a person cannot tell one from another, so that it says nothing by itself. It becomes a fact when the
agent uses it. Numbers that measure something are no ids. Pure.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from clew_shared.record.progress import normalise
from clew_shared.record.signature import digest

if TYPE_CHECKING:
    from collections.abc import Iterable

RECEIPT_CHARS: Final = 400
IDS_MAX: Final = 3
"""Ids in a receipt at most: more of them are a list of things, which is an answer."""

SCANNED_CHARS: Final = 65_536

_OPAQUE: Final = re.compile(
    r"""(?<![\w.])(?:
      [0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}                                   # uuid
    | (?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}                                        # hexadecimal
    | \d{9,}(?:\.\d+)?(?!\s*(?:%|/|of\b|[kmgt]?i?b\b|bytes?\b|rows?\b|lines?\b))    # a long number, no size
    | \#\d{3,}                                                                      # #1041
    | [a-z]+[_-]?\d{3,}                                                             # msg_1041, TCK-48213
    | (?:[a-z]+[_-])?(?=[a-z]*\d+[a-z]+\d|\d*[a-z]+\d+[a-z])[a-z\d]{4,64}           # base62: letters and digits in turn
    )(?!\w|\.\d)""",
    re.IGNORECASE | re.VERBOSE,
)
_LABELLED: Final = re.compile(
    r"""\b(?:id|ID|Id|[A-Za-z]+_id|[a-z]+I[dD])["']?\s*[:=]\s*["']?\#?((?=[\w-]*\d)[\w-]{1,64})"""
)
_WORD: Final = re.compile(r"[^\W\d_]{2,}")


def receipt_of(output: str | None, args: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the digest of a receipt without its ids, and the ids; "" if this is none.

    An answer that is nothing but ids is none: then they are what was asked for. Neither are ids that the arguments
    name: they are not fresh.
    """
    text = output or ""
    if not text or len(text) > RECEIPT_CHARS:
        return "", ()
    ids = list(dict.fromkeys([*_OPAQUE.findall(text), *_LABELLED.findall(text)]))
    if not ids or len(ids) > IDS_MAX:
        return "", ()
    asked = used([one.lstrip("#") for one in ids], args)
    fresh = [one for one in ids if one.lstrip("#") not in asked]
    for one in sorted(fresh, key=len, reverse=True):
        text = _whole(one).sub("<id>", text)
    rest = normalise(text)
    if not fresh or not _WORD.search(rest.replace("<id>", "")):
        return "", ()
    return digest(rest), tuple(one.lstrip("#") for one in fresh)


def used(ids: Iterable[str], args: dict[str, Any]) -> list[str]:
    """Return which ids the arguments name."""
    text = json.dumps(args, default=str, ensure_ascii=False)[:SCANNED_CHARS]
    return [one for one in ids if one in text and _whole(one).search(text)]


def _whole(one: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(one)}(?!\w)")
