"""What is read in a step, as hashes: what it asked for, what it names, and what its answer holds. Pure.

A reading is made once, where an outcome is taken in, and is on record with it. Folds know no text, so that a replay
comes to the same verdicts, whatever later versions read.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from pydantic import BaseModel

from clew_shared.judge.masks import laid_out, masked, without_positions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HEAD_CHARS: Final = 2_000
TAIL_CHARS: Final = 1_000
"""What is read of a long text; the rest counts as one line, by its digest, so that a change in it is news."""

LINES_MAX: Final = 100
LINE_CHARS: Final = 240
NAMES_MAX: Final = 40
NUMBERS_MAX: Final = 8
WORDS_MAX: Final = 100
HASH: Final = 8
LISTED: Final = 3
STAMPED: Final = 3
WORD_MIN: Final = 3
ECHO_MIN: Final = 3
"""Shorter words of an action are in an answer by chance, unless they are names such as `f1`."""


ERROR_CHARS: Final = 160

COMMANDS: Final = ("command", "cmd", "script")


def _phrases(listed: str) -> tuple[str, ...]:
    return tuple(listed.split("|"))


TEMPORARY: Final = _phrases(
    "429|too many requests|rate limit|rate_limit|ratelimit| 502| 503| 504|bad gateway|unavailable|temporar|timed out"
    "|timeout|time-out|connection refused|connection reset|connection closed|econn|try again|could not get lock"
    "|lock is held|is locked"
)
"""A failure that says one of these may well succeed when it is tried again: a server, a network or a lock."""

GOING_ON: Final = _phrases(
    "pending|running|queued|waiting|in progress|in_progress|in-progress|not ready|not yet|starting|creating|processing"
    "|nothing new|no new|no output"
)
"""An answer that says one of these may be another one later, whatever the agent does."""

_HANDLE: Final = re.compile(r"\b[a-z]{1,2}\d{3,}\b")
"""A handle such as `e610`, by which tools name a thing anew each time; for comparing questions alone."""

_EXTENT: Final = re.compile(
    r"limit|max|range|lines?$|offset|start|end$|size|count$|timeout|tail|head$|top_?k",
    re.IGNORECASE,
)
_PUBLISHED: Final = re.compile(r"^(?:[^\s:]*/)?\.agent_context/.*\n?", re.MULTILINE)
"""A line that names what clew itself publishes, as of `grep -r`: it says nothing of the work."""

_GUTTER: Final = re.compile(r"^\s*\d+\s*[\t|:→]\s?")
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")
_MEASURE: Final = re.compile(r"(?<![\w.#<-])\d+(?:[.,]\d+)*(?![\w-]|\.\w)")
_HAS_END: Final = re.compile(r"(\d+(?:\.\d+)?) ?(?:%|(?:/|of|out of) ?(\d+(?:\.\d+)?))")
_PARTS: Final = re.compile(r"[,;{}\[\]]+|(?<=[.!?]) ")
_WORD_CHAR: Final = re.compile(r"[^\W\d_]")
_WORD: Final = re.compile(r"[^\W\d_]{4,}")
_ALNUM: Final = re.compile(r"[^\W_]")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_TOKEN: Final = re.compile(r"[\w./@%+~:-]+")
_ASCII: Final = [chr(code) for code in range(128)]
_ONLY_LETTERS: Final = {ord(c): c if c.isalpha() else " " for c in _ASCII}
_ONLY_TOKENS: Final = {ord(c): c if c.isalnum() or c in "_./@%+~:-" else " " for c in _ASCII}
_PLAIN_PATH: Final = re.compile(r"[\w./~-]+")
_ASKED: Final = re.compile(r"[\s'\"=,;:|&()<>`]+")
_SIMPLE: Final = re.compile(r"[|;&\n]+")
_SLEEP_ONLY: Final = re.compile(r"\s*sleep\s+[\d.]+[smhd]?\s*;?\s*")
_LASTS: Final = re.compile(r"(?:wait|sleep|delay|duration|seconds|minutes|millis(?:econds)?|ms)(?:_\w+)?")
_SLEEPS: Final = re.compile(r"(?:^|[;&|]\s*)sleep\s+[\d.]+[smhd]?\b")
_THINKS: Final = re.compile(
    r"(?:^|[_-])(?:think|thinking|sequentialthinking|reflect)", re.IGNORECASE
)


class Reading(BaseModel, frozen=True, extra="ignore"):
    """What was read in a step; hashes have eight hex digits, and stand in one text.

    `asked` is the question without what may vary, `about` what the action names. `lines` are pairs: a line, and its
    skeleton without numbers. `numbers` are by the place of a line, with 1 first where they have an end (`3/10`);
    `echoes` are lines that repeat words of the action, without these words.
    `words` are those of the answer that the action did not say itself, None in old records.
    `names` are those that the answer holds, `claim` the change that the action claims. `raw` is the answer to the
    letter, `kind` one of "", temporary, going_on.
    """

    asked: str = ""
    about: str = ""
    lines: str = ""
    numbers: dict[int, tuple[float, ...]] = {}
    echoes: dict[int, str] = {}
    words: str | None = None
    names: str = ""
    claim: str = ""
    raw: str = ""
    kind: str = ""


def read(tool: str, args: Mapping[str, Any], result: str, output: str | None) -> Reading:
    """Return the reading of a step."""
    failed = result != "success"
    given = output or ""
    text = _text_of(given)
    lines = unstamped(rows_of(text, failed=failed)) or ["nothing"]
    values = list(_texts(args))
    own = {w.strip("@./-") for value in values for w in _ASKED.split(value[:HEAD_CHARS].lower())}
    echoed = _echoed(lines, values, own)
    bones, numbers = _measured(echoed)
    pairs = hashes([text for pair in zip(lines, bones, strict=True) for text in pair])
    claim = [_digest(tool, canonical(args)), *sorted(set(each(pairs)[1::2]))]
    return Reading(
        asked=hashed(_digest(tool, canonical(args, loose=True))),
        about="".join(map(hashed, targets(args))),
        lines=pairs,
        numbers=numbers,
        echoes={at: hashed(echo) for at, echo in enumerate(echoed) if echo != lines[at]},
        words=_words(lines, own),
        names=_names(text, own),
        claim=hashed("\0".join(claim)),
        raw=hashed(given),
        kind=_kind(text, failed=failed),
    )


def hashed(text: str) -> str:
    """Return eight hex digits that stand for a text."""
    return f"{crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def hashes(texts: list[str]) -> str:
    """Return the hashes of texts without line breaks, in one text."""
    parts = "\n".join(texts).encode("utf-8", "surrogatepass").split(b"\n")
    return "%08x" * len(parts) % tuple(map(crc32, parts)) if texts else ""


def words_of(text: str) -> str:
    """Return the hashes of the words of a thought, by their first six letters, each once."""
    return hashes(list({word[:6]: None for word in _WORD.findall(text.casefold())})[:WORDS_MAX])


def plain(signature: str) -> Reading:
    """Return the reading of a step of which nothing is known but that it was done: doing it again brings nothing."""
    same = hashed(signature)
    return Reading(asked=same, lines=same + same, raw=hashed(""))


def outcome_of(result: str, output: str) -> str:
    """Return the outcome of an action: its result, and a digest of its answer without times, durations and ids."""
    text = _text_of(output)
    same = masked(text)
    if "<id>" in same and not _WORD.search(same.replace("<id>", "")):
        same = text  # nothing but ids: they are the answer
    return f"{result}:{hashed(same)}"


def error_of(result: str, output: str | None) -> str:
    """Return an error without what varies, "" if there was none; for people and traces."""
    if result not in ("failure", "error") or not output:
        return ""
    rows = rows_of(_text_of(output), failed=True)
    return " ".join(rows)[:ERROR_CHARS]


def each(joined: str) -> list[str]:
    """Return the hashes that stand in one text."""
    return [joined[at : at + HASH] for at in range(0, len(joined), HASH)]


@lru_cache(maxsize=4)
def _text_of(output: str) -> str:
    """Return what is read of an answer: of a long one both ends, and a digest of the rest."""
    if ".agent_context/" in output:
        output = _PUBLISHED.sub("", output)
    if len(output) > HEAD_CHARS + TAIL_CHARS:
        middle = hashed(output[HEAD_CHARS:-TAIL_CHARS]).translate(_NO_DIGITS)
        output = f"{output[:HEAD_CHARS]}\n{middle}\n{output[-TAIL_CHARS:]}"
    return laid_out(output)


_NO_DIGITS: Final = str.maketrans("0123456789", "ghijklmnop")


@lru_cache(maxsize=4)
def rows_of(text: str, *, failed: bool) -> list[str]:
    """Return the different lines of a text that was laid out, long ones in parts; of an error without positions."""
    same = masked(text)
    found: dict[str, None] = {}
    for row in (without_positions(same) if failed else same).split("\n"):
        line = _GUTTER.sub("", row) if row[:8].lstrip()[:1].isdigit() else row
        for part in _PARTS.split(line) if len(line) > LINE_CHARS else (line,):
            found[" ".join(part.split()).strip(" \"'|│")] = None
        if len(found) > LINES_MAX:
            break
    return [one for one in found if one[:1].isalnum() or _ALNUM.search(one)][:LINES_MAX]


def unstamped(lines: list[str]) -> list[str]:
    """Return lines of different kinds without the words that each of them ends or begins with, but for numbers."""
    if len(lines) < STAMPED:
        return lines
    split = [line.split() for line in lines]
    bones = [[_NUMBER.sub("#", word) for word in words] for words in split]
    least = min(map(len, bones)) - 1
    ends = [
        next((n for n in range(least) if len({words[at(n)] for words in bones}) > 1), least)
        for at in (lambda n: n, lambda n: -n - 1)
    ]
    begin, end = ends
    if not any("#" in word for word in [*bones[0][:begin], *bones[0][len(bones[0]) - end :]]):
        return lines
    if begin + end > least:
        begin = 0
    rest = {" ".join(words[begin : len(words) - end]) for words in bones}
    if len(rest) < 0.75 * len(lines):
        return lines  # rows of a table: there the numbers tell
    return list(dict.fromkeys(" ".join(words[begin : len(words) - end]) for words in split))


def _measured(lines: list[str]) -> tuple[list[str], dict[int, tuple[float, ...]]]:
    """Return the skeletons of lines, and the numbers in them; in a list they tell the items apart."""
    bones = _NUMBER.sub("#", "\n".join(lines)).split("\n")
    often = Counter(bones)
    return bones, {
        at: _numbers(line)
        for at, (line, bone) in enumerate(zip(lines, bones, strict=True))
        if bone != line and often[bone] < LISTED
    }


def _numbers(line: str) -> tuple[float, ...]:
    """Return the numbers of a line: where one has an end, 1, that one and its end first (`3/10`, `40 %`)."""
    end = _HAS_END.search(line)
    found = _MEASURE.findall(line)[:NUMBERS_MAX]
    values = [float(one.replace(",", "")) if one.count(".") < 2 else 0.0 for one in found]
    if end:
        return (1.0, float(end[1]), float(end[2] or 100), *values)
    return (0.0 if _WORD_CHAR.search(line) else 2.0, *values)


def canonical(value: Any, key: str = "", *, loose: bool = False) -> Any:
    """Return arguments so that equal requests are equal; loose: without extents, ids, times and the order of words."""
    match value:
        case dict():
            kept = sorted(k for k in value if not (loose and _EXTENT.search(k)))
            return {k: canonical(value[k], k, loose=loose) for k in kept}
        case str():
            return _canonical_text(value, key, loose=loose)
        case list() | tuple() if key in COMMANDS:
            return _canonical_text(command_of({key: value}), key, loose=loose)
        case list() | tuple():
            return [canonical(one, key, loose=loose) for one in value]
        case _:
            return value


def _canonical_text(text: str, key: str, *, loose: bool) -> str:
    if key in COMMANDS:
        text = text.replace("2>&1", "")
    words = [
        posixpath.normpath(word) if "/" in word and _PLAIN_PATH.fullmatch(word) else word
        for word in text[: HEAD_CHARS * 2].split()
    ]
    if not loose:
        return " ".join(
            [*words, hashed(text[HEAD_CHARS * 2 :])] if len(text) > HEAD_CHARS * 2 else words
        )
    if key not in COMMANDS:
        prose = len(words) >= 4 and sum(
            w.strip(".,;:!?'\"()").isalpha() for w in words
        ) >= 0.7 * len(words)
        words = ["<prose>"] if prose else sorted(words)
    return _HANDLE.sub("<id>", masked(laid_out(" ".join(words))))


def command_of(args: Mapping[str, Any]) -> str:
    """Return the shell command among the arguments, "" for none."""
    value = next((args[key] for key in COMMANDS if args.get(key)), "")
    if isinstance(value, list | tuple):
        shell = len(value) == 3 and str(value[1]).startswith("-")
        value = value[-1] if shell else " ".join(map(str, value))
    return value if isinstance(value, str) else ""


def is_wait(tool: str, args: Mapping[str, Any]) -> bool:
    """Return whether an action only lets time pass."""
    if tool.lower() in ("wait", "sleep") or any(map(_SLEEP_ONLY.fullmatch, _texts(args))):
        return True
    times = [value for key, value in args.items() if _LASTS.fullmatch(key.lower())]
    return bool(times) and isinstance(times[0], int | float) and len(args) <= 2


def sleeps(args: Mapping[str, Any]) -> bool:
    """Return whether a command waits before it asks."""
    return any(map(_SLEEPS.search, _texts(args)))


def is_thought(tool: str) -> bool:
    """Return whether a tool only takes down what the agent thinks."""
    return bool(_THINKS.search(tool))


def name_of(text: str) -> str:
    """Return a name in one form: of a path its last two parts."""
    text = text.strip("\"'`.,:;()/")
    if "://" in text:
        return text
    return "/".join(
        (posixpath.normpath(text) if "/." in text or "//" in text else text).rsplit("/", 2)[-2:]
    )


def targets(args: Mapping[str, Any]) -> list[str]:
    """Return what a call is about: short values, ids, the words of a command but for its programs and options."""
    found: list[str] = []
    for key, value in args.items():
        if _EXTENT.search(key):
            continue
        if key in COMMANDS:
            found += _most_telling(command_of({key: value}))
        elif isinstance(value, str):
            word = value.strip()
            if _TOKEN.fullmatch(word.replace("?", "").replace("=", "")):  # anything else is prose, and names nothing
                found.append(f"{key}={word}" if word.isdigit() else word)
            elif numbers := _NUMBER.findall(value[:LINE_CHARS]):
                found.append(f"{key}={','.join(numbers)}")
        elif isinstance(value, int | float):
            found.append(f"{key}={value}")
    names = (name_of(laid_out(one[:LINE_CHARS])) for one in found[:NAMES_MAX])
    return [name for name in names if not name.isdigit()]


def _most_telling(command: str) -> list[str]:
    """Return the words of a command that tell most what it is about, but for its programs and options."""
    words: list[str] = []
    for part in _SIMPLE.split(command) if len(command) <= 200 else ():
        words += [w.partition("=")[2] if w[0] == "-" else w for w in part.split()][1:]
    named = [word for word in words if any(c.isalpha() or c == "/" for c in word)]
    best = max(map(_rank, named), default=0)
    return [word for word in named if _rank(word) == best]


def _rank(name: str) -> int:
    """Return how telling a word of a command is: a path or an address before an id, an id before a plain word."""
    return 2 if any(c in name for c in "/.@") else int(any(c.isdigit() for c in name))


def _echoed(lines: list[str], values: list[str], own: set[str]) -> list[str]:
    """Return the lines with a sign in the place of words of the action: to hear one's own words back is no news."""
    joined = "\n".join(lines)
    whole = {
        one.lower() for one in values if ECHO_MIN <= len(one) <= LINE_CHARS and "\n" not in one
    }
    for one in sorted(whole | set(filter(_is_telling, own)), key=len, reverse=True)[:NAMES_MAX]:
        if one in joined:
            joined = joined.replace(one, "¤")
    return joined.split("\n")


def _is_telling(word: str) -> bool:
    """Return whether a word is heard back rather than met by chance: a number may be what was asked for."""
    return not word.isdigit() and len(word) >= (ECHO_MIN if word.isalpha() else 2)


def _words(lines: list[str], own: set[str]) -> str:
    """Return the words of an answer that the action did not say itself."""
    said = set(_split(" ".join(own), _LETTERS, _ONLY_LETTERS))
    found = dict.fromkeys(_split("\n".join(lines), _LETTERS, _ONLY_LETTERS))
    new = (w for w in found if len(w) >= WORD_MIN and w not in said)
    return hashes(list(islice(new, WORDS_MAX)))


def _names(text: str, own: set[str]) -> str:
    """Return what may be names in an answer: words with a digit, a dot, a slash or the like."""
    found = dict.fromkeys(_split(text, _TOKEN, _ONLY_TOKENS))
    names = (w for w in found if not w.isalpha() and len(w) >= WORD_MIN and w not in own)
    return hashes([name_of(one) for one in islice(names, NAMES_MAX)])


def _split(text: str, shape: re.Pattern[str], table: dict[int, str]) -> list[str]:
    """Return what of a text has a shape; a table is several times as fast as a pattern, but for ASCII alone."""
    return text.translate(table).split() if text.isascii() else shape.findall(text)


def _kind(text: str, *, failed: bool) -> str:
    head = text[:HEAD_CHARS]
    if failed:
        return "temporary" if any(word in head for word in TEMPORARY) else ""
    return "going_on" if any(word in head for word in GOING_ON) else ""


def _texts(value: Any) -> Iterable[str]:
    match value:
        case str():
            yield value
        case dict():
            for one in value.values():
                yield from _texts(one)
        case list() | tuple():
            joined = [one for one in value if isinstance(one, str)]
            if len(joined) == len(value):
                yield " ".join(joined)
            for one in value:
                yield from _texts(one)


def _digest(tool: str, args: Any) -> str:
    return f"{tool} {json.dumps(args, sort_keys=True, ensure_ascii=False, default=str)}"
