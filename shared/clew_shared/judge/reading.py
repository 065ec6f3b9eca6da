"""What a step asked for, names and was answered, as hashes, made once and on record: folds know no text. Pure."""

import json
import posixpath
import re
from collections.abc import Mapping
from functools import lru_cache
from os.path import commonprefix
from typing import Any, Final, Literal
from zlib import crc32

from pydantic import BaseModel

from clew_shared.text.shorten import without_own_files

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
# A value after one of these words differs in each run and says nothing about the work.
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
    text = _ESCAPES.sub("", text.lower()) if "\x1b" in text else text.lower()
    if "\\" in text:
        text = text.replace("\\n", "\n").replace("\\t", " ").replace('\\"', '"')
    return text.replace("\r", "\n")


@lru_cache(maxsize=8)
def masked(text: str) -> str:
    """Return a text without times, durations and ids: `<t>`, `<d>` and `<id>` stand in their place."""
    return _VARIES.sub(_mask, text) if _NUMBER.search(text) else text  # all of these have a digit


def _mask(found: re.Match[str]) -> str:
    kind = found.lastgroup or ""
    if kind != "n":
        return _MASKS[kind]
    start = found.start()
    before = found.string[max(0, start - _LABEL_CHARS) : start].rstrip(" \"'=:#")
    label = before[len(before.rstrip("abcdefghijklmnopqrstuvwxyz")) :]
    return "<id>" if label in _LABELS else found[0]


# What is read of a long text; the rest counts as one line, by its digest, so that a change in it is news.
HEAD_CHARS, TAIL_CHARS = 2_000, 1_000
LINES_MAX, LINE_CHARS, ERROR_CHARS = 100, 240, 160
NUMBERS_MAX, ROWS_MAX = 8, 12  # the numbers that are compared of a line, and the lines of an answer
WORDS_MAX, WORD_MIN = 64, 3
NAMES_MAX, DIGITS_MAX = 40, 100
COMMANDS: Final = ("command", "cmd", "script")
STAMPED: Final = 3  # of as many lines it can be told that each has the same stamp
# A failure that says one of these may well succeed when it is tried again: a server, a network or a lock.
_TEMPORARY: Final = (
    *("429", "too many requests", "rate limit", "rate_limit", "ratelimit"),
    *("bad gateway", "unavailable", "temporar", "timed out", "timeout", "time-out", "econn"),
    *("connection refused", "connection reset", "connection closed", "try again"),
    *("could not get lock", "lock is held", "lock held", "holds the lock", "is locked"),
)
# … or names a status of 5xx, and is no test of a program that gives one.
_SERVER_FAULT: Final = re.compile(
    r"internal server error| 50[234]\b"
    r"|(?:http|status|error|code|returned)[^\w\n]{0,3}(?:[\d.]{1,3} |code\W{1,3})?5(?:0\d|1[01]|2\d)\b"
)
# An answer that says one of these may be another one later, whatever the agent does.
_GOING_ON: Final = (
    *("pending", "running", "queued", "waiting", "in progress", "in_progress", "in-progress"),
    *("not ready", "not yet", "starting", "creating", "processing"),
    *("nothing new", "no new", "no output"),
)
# A handle such as `e610`, by which tools name a thing anew each time; for comparing questions alone.
_HANDLE: Final = re.compile(r"\b[a-z]{1,2}\d{3,}\b")
# Arguments that say how much of an answer is wanted, and not of what.
_EXTENT: Final = re.compile(
    r"(?i)limit|max|range|lines?$|offset|start|end$|size|count$|timeout|tail|head$|top_?k"
)
# Both begin with a digit: a scan finds it twice as fast as a look back at each character.
_NUMBER: Final = re.compile(r"\d[\d.,]*(?<=\d)")
_MEASURE: Final = re.compile(r"\d(?<![\w.<-]\d)\d*(?:[.,]\d+)*(?![\w-]|\.\w)")
_WORD: Final = re.compile(r"[^\W\d_]{4,}")
# Of a byte, what belongs to a word: letters, and all of what is not ASCII.
_LETTERS: Final = bytes(code if code > 127 or chr(code).isalpha() else 32 for code in range(256))
_TOKEN: Final = re.compile(r"[\w./@%+~:?=-]+")
_PLAIN_PATH: Final = re.compile(r"[\w./~-]+")
_PIPES: Final = re.compile(r"[|;&\n]+")
_SLEEP_ONLY: Final = re.compile(r"\s*sleep\s+[\d.]+[smhd]?\s*;?\s*")
_SLEEPS: Final = re.compile(r"(?:^|[;&|]\s*)sleep\s+[\d.]+[smhd]?\b")
_LASTS: Final = re.compile(
    r"(?:wait|sleep|delay|duration|seconds|minutes|millis(?:econds)?|ms)(?:_\w+)?", re.IGNORECASE
)
_NO_DIGITS: Final = str.maketrans("0123456789", "ghijklmnop")
_HASHED: Final = re.compile(r"\w{8}")
_WRITER: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str)


class Reading(BaseModel, frozen=True, extra="ignore"):
    """What was read in a step; hashes have eight hex digits, and stand in one text."""

    asked: str = ""  # the question without what may vary
    about: str = ""  # what the action names
    lines: str = ""  # in pairs: a line, and its skeleton without numbers
    # by the place of a line; None: infinite, in old records
    numbers: dict[int, tuple[float | None, ...]] = {}
    words: str | None = None  # those that the action did not say itself, None in old records
    claim: str = ""  # the change that the action claims
    raw: str = ""  # the answer to the letter
    kind: str = ""  # or temporary, going_on


def read(
    signature: str, tool: str, args: Mapping[str, Any], result: str, output: str | None
) -> Reading:
    given = output or ""
    text = _text_of(given)
    lines, bones = unstamped(rows_of(text) or ["nothing"])
    own = " ".join(_texts(args))[: HEAD_CHARS * 2].lower()
    differ = [at for at, bone in enumerate(bones) if bone != lines[at]][:ROWS_MAX]
    pairs = "\n".join(f"{line}\n{bone}" for line, bone in zip(lines, bones, strict=True))
    return Reading(
        asked=hashed(f"{tool} {_WRITER.encode(_loose(args))}"),
        about="".join(map(hashed, targets(args))),
        lines=_hashes(_bytes(pairs).split(b"\n")),
        numbers={
            at: tuple(map(_value, _MEASURE.findall(lines[at])[:NUMBERS_MAX])) for at in differ
        },
        words=_words("\n".join(lines), own),
        claim=hashed("\0".join([signature, *sorted(set(bones))])),
        raw=hashed(given),
        kind=_kind(text[:HEAD_CHARS], failed=result != "success"),
    )


def hashed(text: str) -> str:
    """Return eight hex digits that stand for a text."""
    return f"{crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def _hashes(texts: list[bytes]) -> str:
    return "%08x" * len(texts) % tuple(map(crc32, texts))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def each(joined: str) -> list[str]:
    """Return the hashes that stand in one text."""
    return _HASHED.findall(joined)


def words_of(text: str) -> str:
    words = dict.fromkeys(word[:6] for word in _WORD.findall(text.casefold()))
    return _hashes([_bytes(word) for word in words][:WORDS_MAX])


def plain(signature: str) -> Reading:
    """Return the reading of a step of which nothing is known but that it was done: doing it again brings nothing."""
    return Reading(asked=hashed(signature), lines=2 * hashed(signature), raw=hashed(""))


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
    return " ".join(rows_of(_text_of(output)))[:ERROR_CHARS]


def fault_of(args: Mapping[str, Any], error: str) -> str:
    """Return a hash of what an error says beside what the action itself named, "" for nothing."""
    own = " ".join(_texts(args))[: HEAD_CHARS * 2].lower() if error else ""
    said = [word for one in error.split() if (word := one.strip("'\"`:,.()[]")) not in own]
    return hashed(" ".join(said)) if said else ""


@lru_cache(maxsize=4)
def _text_of(output: str) -> str:
    """Return what is read of an answer: of a long one both ends, and a digest of the rest."""
    output = without_own_files(output)
    if len(output) > HEAD_CHARS + TAIL_CHARS:
        middle = hashed(output[HEAD_CHARS:-TAIL_CHARS]).translate(_NO_DIGITS)
        output = f"{output[:HEAD_CHARS]}\n{middle}\n{output[-TAIL_CHARS:]}"
    return laid_out(output)


@lru_cache(maxsize=4)
def rows_of(text: str) -> list[str]:
    """Return the different lines of a text that was laid out, without times, durations and ids."""
    rows = dict.fromkeys(" ".join(row.split()).strip(" \"'|│") for row in masked(text).split("\n"))
    return [one for one in rows if one[:1].isalnum() or any(map(str.isalnum, one))][:LINES_MAX]


def unstamped(lines: list[str]) -> tuple[list[str], list[str]]:
    """Return lines and skeletons, without the numbered words that all begin or end with, if all else differs."""
    bones = _bones(lines)
    if len(lines) >= STAMPED:
        first, last = _stamp(bones), _stamp([bone[::-1] for bone in bones])
        rest = [line.split(" ", first)[-1].rsplit(" ", last)[0] for line in lines]
        if first + last and len(set(_bones(rest))) >= 0.75 * len(lines):
            lines = list(dict.fromkeys(rest))
            return lines, _bones(lines)
    return lines, bones


def _bones(lines: list[str]) -> list[str]:
    return _NUMBER.sub("#", "\n".join(lines)).split("\n")


def _stamp(bones: list[str]) -> int:
    words, space, _ = commonprefix(bones).rpartition(" ")  # noqa: RUF071 - texts, not paths
    return words.count(" ") + 1 if space and "#" in words else 0


def _value(number: str) -> float:
    """Return a number, 0 for versions and for what no float can hold, since JSON has no infinity."""
    plain = number.replace(",", "")
    return float(plain) if len(plain) <= DIGITS_MAX and plain.count(".") < 2 else 0.0


def _loose(value: Any, key: str = "") -> Any:
    match value:
        case dict():
            return {k: _loose(v, k) for k, v in value.items() if not _EXTENT.search(k)}
        case list() | tuple() if key in COMMANDS:
            return _loose(command_of({key: value}), key)
        case list() | tuple():
            return [_loose(one, key) for one in value]
        case str():
            words = [
                posixpath.normpath(word) if "/" in word and _PLAIN_PATH.fullmatch(word) else word
                for word in value[: HEAD_CHARS * 2].split()
                if word != "2>&1"
            ]
            ordered = words if key in COMMANDS else sorted(words)
            return _HANDLE.sub("<id>", masked(laid_out(" ".join(ordered))))
        case _:
            return value


def command_of(args: Mapping[str, Any]) -> str:
    value = next((args[key] for key in COMMANDS if args.get(key)), "")
    if isinstance(value, list | tuple):
        shell = len(value) == 3 and str(value[1]).startswith("-")
        value = value[-1] if shell else " ".join(map(str, value))
    return value if isinstance(value, str) else ""


def pause(tool: str, args: Mapping[str, Any]) -> Literal["only", "first", ""]:
    """Return whether a call does nothing but wait ("only"), waits before it acts ("first"), or does not wait."""
    texts = [text for text in _texts(args) if "sleep" in text]
    times = [args[key] for key in args if _LASTS.fullmatch(key)] if len(args) <= 2 else []
    lasts = bool(times) and isinstance(times[0], int | float)
    if lasts or tool.lower() in ("wait", "sleep") or any(map(_SLEEP_ONLY.fullmatch, texts)):
        return "only"
    return "first" if any(map(_SLEEPS.search, texts)) else ""


def targets(args: Mapping[str, Any]) -> list[str]:
    """Return what a call is about: short values, numbers, the most telling words of a command."""
    found: list[str] = []
    for key, value in args.items():
        if _EXTENT.search(key):
            continue
        if key in COMMANDS:
            found += _most_telling(command_of({key: value}))
        elif isinstance(value, str) and _TOKEN.fullmatch(word := value.strip()):
            found.append(f"{key}={value}" if word.isdigit() else word)
        elif isinstance(value, str) and (numbers := _NUMBER.findall(value[:LINE_CHARS])):
            found.append(f"{key}={','.join(numbers)}")  # prose names nothing but its numbers
        elif isinstance(value, int | float):
            found.append(f"{key}={value}")
    return [laid_out(one[:LINE_CHARS]).strip("\"'`.,:;()/") for one in found[:NAMES_MAX]]


def _most_telling(command: str) -> list[str]:
    """Return the words of a command that tell most of it: a path more than an id, an id more than a plain word."""
    words: list[str] = []
    for part in _PIPES.split(command) if len(command) <= LINE_CHARS else ():
        words += [w.partition("=")[2] if w[0] == "-" else w for w in part.split()][1:]
    ranks = {
        word: 2 if any(c in word for c in "/.@") else int(any(map(str.isdigit, word)))
        for word in words
        if any(c.isalpha() or c == "/" for c in word)
    }
    return [word for word, rank in ranks.items() if rank == max(ranks.values())]


def _words(answer: str, own: str) -> str:
    """Return the words of an answer that the action did not say itself; of many a sample, from all of it."""
    found = set(_split(answer)).difference(_split(own))
    sample = sorted(crc32(word) for word in found if len(word) >= WORD_MIN)[:WORDS_MAX]
    return "%08x" * len(sample) % tuple(sample)


def _split(text: str) -> list[bytes]:
    return _bytes(text).translate(_LETTERS).split()


def _kind(head: str, *, failed: bool) -> str:
    if failed:
        is_fault = "assert" not in head and _SERVER_FAULT.search(head)
        return "temporary" if is_fault or any(map(head.__contains__, _TEMPORARY)) else ""
    return "going_on" if any(map(head.__contains__, _GOING_ON)) else ""


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for one in value.values() for text in _texts(one)]
    if isinstance(value, list | tuple):
        return [" ".join(map(str, value)), *(text for one in value for text in _texts(one))]
    return []
