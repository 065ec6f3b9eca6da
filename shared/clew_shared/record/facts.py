"""What a read returned, as a sketch to compare with others, and which actions ask for the same in another form.

A read that returns nothing but what earlier reads in the same world returned has brought no new fact, whatever its
limits or the order of its words were. Pure; texts in, short strings out.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final
from zlib import crc32

from clew_shared.record.progress import COMMAND_KEYS, normalise
from clew_shared.record.signature import digest
from clew_shared.record.state import Sketch

WORDS: Final = "words"
"""Begins the keys of actions that differ in the order of their words."""

SKETCH_SIZE: Final = 32
"""Pieces of a text in its sketch, by the smallest hashes: a sample that is the same for the same text."""

KNOWN_MAX: Final = 64
HASH_CHARS: Final = 8
SCANNED_CHARS: Final = 65_536
PARTS_MAX: Final = 5_000
ARGS_CHARS: Final = 2_000
QUERY_CHARS: Final = 200
QUERY_WORDS_MIN: Final = 2
ECHO_PIECES_MIN: Final = 10
"""With fewer pieces, a number that is also a limit in the arguments may be the answer itself, and is compared."""

_ENDS: Final = re.compile(r"[\n,;{}\[\]]+")
_RANK: Final = re.compile(r"^\d+\s*[\t|:.)]\s*(?=[^\d\s])")
_SCORE: Final = re.compile(r"^(\W*[a-z_ ]+\W*[:=]\s*)\d+\.\d+$", re.IGNORECASE)
_EXTENT: Final = re.compile(
    r"(?:(?<=[\s'\"]-)|(?<=\s-[nc])|(?<=\d-)|(?<![\w./#-]))(?P<number>\d{1,9})(?=p?(?![\w./]))"
)
"""A number that may be a limit or a range (`-n 50`, `1,200p`), and is no part of a name (`f10.py`, `W123`)."""

_QUERY_WORD: Final = re.compile(r"[-+!~]?\w(?:[\w.'-]*\w)?")
_SEPARATED: Final = re.compile(r"[\s|,]")
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")


def sketch_of(output: str | None, args: dict[str, Any]) -> str:
    """Return the number of different pieces of a text, and the hashes of some of them: `12:0a1b2c3d…`.

    "" if the arguments are too long to ask for the same in another form.
    """
    asked = json.dumps(args, default=str)
    if len(asked) > ARGS_CHARS:
        return ""
    pieces = _pieces(output or "")
    if len(pieces) >= ECHO_PIECES_MIN and (limits := _EXTENT.findall(asked)):
        named = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(set(limits)))})(?!\w)")
        pieces = {named.sub("#", piece) for piece in pieces}
    hashes = sorted({crc32(piece.encode("utf-8", "surrogatepass")) for piece in pieces})
    return f"{len(hashes)}:{''.join(f'{one:08x}' for one in hashes[:SKETCH_SIZE])}"


def read_sketch(text: str) -> Sketch:
    """Return the sketch that `sketch_of` wrote."""
    size, _, joined = text.partition(":")
    hashes = [joined[at : at + HASH_CHARS] for at in range(0, len(joined), HASH_CHARS)]
    return _bounded(
        Sketch(int(size), hashes, ""), len(hashes) if int(size) > len(hashes) else KNOWN_MAX
    )


def covers(known: Sketch, found: Sketch) -> bool:
    """Return whether everything in `found` is in `known`, as far as the sketches can tell; a larger text is not."""
    compared = [h for h in found.hashes if not known.below or h <= known.below]
    seen = set(known.hashes)
    return (
        found.size <= known.size and bool(compared or not found.size) and seen.issuperset(compared)
    )


def united(known: Sketch, found: Sketch) -> Sketch:
    """Return the sketch of what either of them holds."""
    below = min((s.below for s in (known, found) if s.below), default="")
    hashes = sorted({h for h in (*known.hashes, *found.hashes) if not below or h <= below})
    return _bounded(Sketch(max(known.size, found.size), hashes, below), KNOWN_MAX)


def _bounded(sketch: Sketch, most: int) -> Sketch:
    if len(sketch.hashes) < most:
        return sketch
    return Sketch(sketch.size, sketch.hashes[:most], sketch.hashes[most - 1])


def resized(tool: str, args: dict[str, Any]) -> str:
    """Return the key of all actions that differ from this one in numbers alone: limits, offsets, ranges."""
    return _key("size", tool, _without_numbers(args))


def reworded(tool: str, args: dict[str, Any]) -> str:
    """Return the key of all actions that differ from this one in the order of a query's words alone, "" if none can.

    The order of the words of a command means something, but for those within quotes.
    """
    changed = _in_any_order("", args)
    return _key(WORDS, tool, changed) if changed != args else ""


def largest_number(args: dict[str, Any]) -> int:
    """Return the largest number that the arguments name, 0 for none."""
    found = _EXTENT.findall(json.dumps(args, default=str))
    return max(map(int, found), default=0)


def _key(kind: str, tool: str, args: Any) -> str:
    text = json.dumps(args, sort_keys=True, ensure_ascii=False, default=str)
    return f"{kind}:{digest(f'{tool} {text}')}"


def _without_numbers(value: Any) -> Any:
    match value:
        case str():
            return _EXTENT.sub("#", value) if _is_line(value) else value
        case dict():
            return {str(k): _without_numbers(v) for k, v in value.items() if not _is_extent(v)}
        case list() | tuple():
            return [_without_numbers(v) for v in value]
        case _:
            return value


def _in_any_order(name: str, value: Any) -> Any:
    match value:
        case str() if name in COMMAND_KEYS:
            return _QUOTED.sub(lambda found: _sorted(found[0]), value) if _is_line(value) else value
        case str():
            return _sorted(value) if _is_line(value) else value
        case dict():
            return {str(k): _in_any_order(str(k), v) for k, v in value.items()}
        case list() | tuple():
            words = len(value) >= QUERY_WORDS_MIN and all(isinstance(v, str) for v in value)
            return ["", *sorted(value)] if words and name not in COMMAND_KEYS else value
        case _:
            return value


def _is_line(text: str) -> bool:
    return len(text) <= QUERY_CHARS and "\n" not in text


def _is_extent(value: Any) -> bool:
    """Return whether a value is a number, or a list of numbers such as a range."""
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_is_extent, value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _sorted(text: str) -> str:
    words = sorted(_QUERY_WORD.findall(text.casefold()))
    query = len(words) >= QUERY_WORDS_MIN and _SEPARATED.search(text.strip())
    return " ".join(["", *words]) if query else text


def _pieces(output: str) -> set[str]:
    """Return the lines, and the parts of lists and records, without ranks, line numbers and scores."""
    parts = {part.strip() for part in _ENDS.split(normalise(output[:SCANNED_CHARS]), PARTS_MAX)}
    pieces = {_SCORE.sub(r"\1<score>", _RANK.sub("", part)) for part in parts}
    return pieces - {""}
