"""A tool call and its result in one line: "did X → found Y", for prompts and recovery texts. Pure text."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from clew_shared.text.shorten import beginning, both_ends, in_one_line, one_line

RELEVANCES = ("high", "medium", "low")
DID_CHARS = 120
FOUND_CHARS = 300


def reasoning_line(did: str, found: str) -> str:
    """Return both in one line: `did read_file a.py → found an empty file`."""
    verb = "" if found.casefold().startswith("found ") else "found "
    return f"did {did} → {verb}{found}"


def did(tool: str, params: Mapping[str, Any]) -> str:
    """Return a call in one line: the tool and the values of its parameters, 120 characters at most."""
    values = [one_line(as_text(value)[: DID_CHARS * 2]) for value in params.values()]
    return beginning(" ".join([tool, *values]), DID_CHARS)


def found(insights: str, learning: str, outcome: str, output: str) -> str:
    """Return the result of a call in one line: insight and learning, else its output, of a failure both ends."""
    lessons = [one_line(text).rstrip(".;") for text in (insights, learning)]
    if text := "; ".join(filter(None, lessons)):
        return beginning(text, FOUND_CHARS)
    if outcome == "success":
        return in_one_line(output[: FOUND_CHARS * 2], FOUND_CHARS) or "no output"
    ends = both_ends(one_line(output), FOUND_CHARS - len(outcome) - 2)
    return f"{outcome}: {ends or 'no output'}"


def relevant_lines(lines: Iterable[tuple[str, str]], room: int | None = None) -> list[str]:
    """Return lines (with their relevance, by time) by relevance, then time; beyond the room the least relevant go."""
    kept = sorted(lines, key=lambda one: _tier(one[0]))
    excess = 0 if room is None else sum(len(line) + 1 for _, line in kept) - room
    for at in sorted(range(len(kept)), key=lambda n: -_tier(kept[n][0])):
        if excess <= 0:
            break
        excess -= len(kept[at][1]) + 1
        kept[at] = ("", "")
    return [line for _, line in kept if line]


def _tier(relevance: str) -> int:
    return RELEVANCES.index(relevance if relevance in RELEVANCES else "medium")


def as_text(value: Any) -> str:
    """Return a value as text: "" for a missing one, a list of sentences joined."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "; ".join(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
