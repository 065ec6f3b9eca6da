"""Receipts: short answers that differ from each other by fresh ids alone ("message sent", "file uploaded").

An id is opaque: a person cannot tell one from another, so that it says nothing by itself. It becomes a fact when the
agent uses it. Numbers that measure something are no ids. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from clew_shared.record.progress import normalise
from clew_shared.record.signature import digest

RECEIPT_CHARS: Final = 400
IDS_MAX: Final = 3
"""Ids in a receipt at most: more of them are a list of things, which is an answer."""

ID_CHARS: Final = 64

_OPAQUE: Final = re.compile(
    r"""(?<![\w.])(?:
      [0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}                                        # uuid
    | (?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}                                    # hexadecimal
    | \d{9,}(?:\.\d+)?(?!\s*(?:%|/|of\b|[kmgt]?i?b\b|bytes?\b|rows?\b|lines?\b))         # a long number, not a size
    | [a-z]+[_-]?\d{3,}                                                                  # msg_1041, TCK-48213
    | (?:[a-z]+[_-])?(?=(?:[a-z]*\d){2})(?=(?:\d*[a-z]){2})(?=[a-z\d]*(?:\d[a-z]+\d|[a-z]\d+[a-z]))[a-z\d]{6,64}
    )(?![\w]|\.\d)""",
    re.IGNORECASE | re.VERBOSE,
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
    found = opaque(text)
    asked = opaque(json.dumps(args, default=str)) if found else set[str]()
    fresh = [one for one in dict.fromkeys(_OPAQUE.findall(text)) if one not in asked]
    if not fresh or len(fresh) > IDS_MAX or any(text.count(one) > 1 for one in fresh):
        return "", ()
    for one in fresh:
        text = text.replace(one, "<id>")
    rest = normalise(text)
    return (digest(rest), tuple(fresh)) if _WORD.search(rest.replace("<id>", "")) else ("", ())


def opaque(text: str) -> set[str]:
    """Return the tokens of a text that look like ids."""
    return set(_OPAQUE.findall(text))
