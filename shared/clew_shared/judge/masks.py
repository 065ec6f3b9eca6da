"""Texts without what varies from run to run: times, durations, ids, positions. Pure; one pass over a text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[a-z]")
_UNIT: Final = r"\s?(?:[nµu]s|ms|secs?|seconds?|mins?|minutes?|hrs?|hours?|days?|[smhd])"
_VARIES: Final = re.compile(
    rf"""(?<![a-z0-9.])(?=[a-z_-]{{0,40}}+\d)(?:
      (?=\d)(?:(?P<t>\d{{4}}-\d\d-\d\d(?:[t _]\d\d[:-]?\d\d(?:[:-]?\d\d(?:[.,]\d+)?)?)?(?:z|\s?[+-]\d\d:?\d\d)?\b
        | \d{{1,2}}/\d{{1,2}}/\d{{2,4}}\b | \d{{1,2}}\.\d{{1,2}}\.\d{{4}}\b | 20\d{{6}}[t_-]?\d{{4,6}}z?\b
        | (?:\d{{1,2}}\ (?:[a-z]{{3}}\ \d{{4}}\ )?)?\d{{1,2}}:\d\d(?::\d\d)?(?:[.,]\d+)?(?:\ ?[ap]m)?
          (?:\ utc|\ gmt)?(?:\ 20\d\d)?\b)
      | (?P<d>(?:\d+(?:\.\d+)?{_UNIT})+(?!\w)))
      | (?P<i>[0-9a-f]{{8}}-(?:[0-9a-f]{{4}}-){{3}}[0-9a-f]{{12}}\b | 0x[0-9a-f]{{4,}}\b
        | (?<=\#)\d{{3,}}\b | (?<=\[)\d{{4,}}(?=\]) | \d{{10,}}(?:\.\d+)?\b
        | (?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{{7,64}}\b | \d+[a-z]+\d+[a-z][a-z0-9]* | [a-z]+\d+[a-z]+\d[a-z0-9]*)
      | (?P<n>\w*\d\w*(?:[.,]\d+)*(?:\ ?(?:/|of)\ ?\d+)?))
    """,
    re.VERBOSE,
)
_MASKS: Final = {"t": "<t>", "d": "<d>", "i": "<id>"}
# What stands after one of these is counted or made anew in each run, and says nothing of the work.
_LABELS: Final = frozenset(
    re.findall(
        r"\w+",
        "id pid tid uid ref trace req request session span nonce attempt try retry iteration process thread duration"
        " elapsed took runtime uptime age time timestamp ms seconds since waited latency",
    )
)
_LABEL_CHARS: Final = 24


def laid_out(text: str) -> str:
    """Return a text in lower case without colours and escapes."""
    text = _ESCAPES.sub("", text.lower())
    if "\\" in text:
        text = text.replace("\\n", "\n").replace("\\t", " ").replace('\\"', '"')
    return text.replace("\r", "\n")


@lru_cache(maxsize=8)
def masked(text: str) -> str:
    """Return a text without times, durations and ids: `<t>`, `<d>` and `<id>` stand in their place."""
    return _VARIES.sub(_mask, text)


def _mask(found: re.Match[str]) -> str:
    kind = found.lastgroup or ""
    if kind != "n":
        return _MASKS[kind]
    start = found.start()
    before = found.string[max(0, start - _LABEL_CHARS) : start].rstrip(" \"'=:#")
    label = before[len(before.rstrip("abcdefghijklmnopqrstuvwxyz")) :]
    return "<id>" if label in _LABELS else found[0]
