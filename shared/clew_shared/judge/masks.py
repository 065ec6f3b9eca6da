"""Texts without what varies from run to run: times, durations, ids, positions. Pure.

Patterns are tried only where a text has what they need, since most lines have no digit at all.
"""

from __future__ import annotations

import re
from typing import Final

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[a-z]")
_GUTTER: Final = re.compile(r"^\s*\d+\s*[\t|:→]\s?")
_RULE: Final = re.compile(r"([^\w\s])\1{2,}")
_DIGIT: Final = re.compile(r"\d")
_MONTH: Final = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DAY: Final = "(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? +"
_UNIT: Final = r"\s?(?:[nµu]s|ms|secs?|seconds?|mins?|minutes?|hrs?|hours?|days?|[smhd])"
_HAS_MONTH: Final = re.compile("jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec")

_DATED: Final = re.compile(rf"\b(?:{_DAY})?(?:\d{{1,2}} +)?{_MONTH} +\d{{1,2}}\b(?:,? +\d{{4}}\b)?")
_NUMBERED: Final = re.compile(
    rf"""(?<![\w.])(?=\d)(?:
      (?P<time>\d{{4}}-\d\d-\d\d(?:[t _]\d\d[:-]?\d\d(?:[:-]?\d\d(?:[.,]\d+)?)?)?(?:z|\s?[+-]\d\d:?\d\d)?\b
        | \d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}\b | 20\d{{6}}[t_-]?\d{{4,6}}z?\b
        | \d{{1,2}}:\d\d(?::\d\d)?(?:[.,]\d+)?(?:\ ?[ap]m)?(?:\ (?:utc|gmt))?(?:\ +20\d\d)?\b)
      | (?P<duration>(?:\d+(?:\.\d+)?{_UNIT})+(?!\w))
      | (?P<id>[0-9a-f]{{8}}-(?:[0-9a-f]{{4}}-){{3}}[0-9a-f]{{12}}\b | 0x[0-9a-f]{{4,}}\b
        | \d{{10,}}(?:\.\d+)?\b | \d*(?=[a-f])[0-9a-f]{{6,63}}\b | \d+[a-z]+\d+[a-z][a-z0-9]*))
    """,
    re.VERBOSE,
)
_LETTERED: Final = re.compile(
    r"(?<![a-z0-9])[a-z]+\d[a-z0-9]*(?:-[0-9a-f]{4}){0,3}(?:-[0-9a-f]{12})?"
)
_HEX: Final = re.compile(r"[0-9a-f]{7,64}")
_RANDOM: Final = re.compile(r"[a-z]+\d+[a-z]+\d[a-z0-9]*")
_LABELLED: Final = re.compile(
    r"\b(?P<what>(?:[pt]id|uid|ref|trace|req|request|session|ray|span|nonce|attempt|try|retry|iteration|process|thread"
    r"|(?:[a-z]+[_-])?id)(?: ?id)?[\"']?\s?[:=#]?\s?[\"']?#?|(?:duration|elapsed|took|runtime|uptime|age|time|timestamp"
    r"|ms|seconds|since|waited|latency)[\w ]{0,20}[\"']?\s?[:=]\s?[\"']?)"
    r"(?=[\w-]*\d)[\w-]+(?:[.,]\d+)*(?: ?(?:/|of) ?\d+)?"
)
_HAS_LABEL: Final = re.compile(
    "id|ref|tra|req|ses|ray|spa|non|att|try|iter|proc|thre|dura|elap|took|time|age|ms|seco|sinc|wait|late"
)
_POSITION: Final = re.compile(
    r"(?<=[\w)])[:(]\d+(?:[:,]\d+)?\)?(?=[:,\s)]|$)|\b(?:lines?|l\.|col(?:umn)?|offset) ?\d+"
)


def laid_out(text: str) -> str:
    """Return a text in lower case without colours, escapes, and rules or bars of one sign."""
    text = text.lower()
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\\" in text:
        text = text.replace("\\n", "\n").replace("\\t", " ").replace('\\"', '"')
    return _RULE.sub(r"\1", text.replace("\r", "\n"))


def without_gutter(line: str) -> str:
    """Return a line without the line number in front that some tools print."""
    return _GUTTER.sub("", line)


def masked(line: str) -> str:
    """Return a line without times, durations and ids: `<t>`, `<d>` and `<id>` stand in their place."""
    if not _DIGIT.search(line):
        return line
    if _HAS_MONTH.search(line):
        line = _DATED.sub("<t>", line)
    line = _NUMBERED.sub(_by_group, line)
    if _HAS_LABEL.search(line):
        line = _LABELLED.sub(r"\g<what><id>", line)
    return _LETTERED.sub(_lettered, line)


def without_positions(line: str) -> str:
    """Return a line of an error without line and column numbers."""
    return _POSITION.sub("<pos>", line)


def _by_group(found: re.Match[str]) -> str:
    return {"time": "<t>", "duration": "<d>"}.get(found.lastgroup or "", "<id>")


def _lettered(found: re.Match[str]) -> str:
    word = found[0]
    return "<id>" if "-" in word or _HEX.fullmatch(word) or _RANDOM.fullmatch(word) else word
