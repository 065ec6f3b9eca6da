"""What was done and what came of it, in one line: "did X → found Y" (the two-layer reflection design).

The short form of tool calls, for prompts and recovery texts; the records themselves are elsewhere. Pure text.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from clew_shared.record.progress import both_ends

RELEVANCES = ("high", "medium", "low")
DID_CHARS = 120
FOUND_CHARS = 300

_T = TypeVar("_T")


def reasoning_line(did: str, found: str) -> str:
    """Join what was done and what was found: `did read_file a.py → found an empty file`."""
    verb = "" if found.casefold().startswith("found ") else "found "
    return f"did {did} → {verb}{found}"


def did(tool: str, params: Mapping[str, Any]) -> str:
    """Name a call in one line: the tool and the values of its parameters, 120 characters at most."""
    values = [one_line(as_text(value)[: DID_CHARS * 2]) for value in params.values()]
    return shortened_line(" ".join([tool, *values]), DID_CHARS)


def found(insights: str, learning: str, outcome: str, output: str) -> str:
    """Say what came of a call in one line: insight and learning, else its output.

    Of an output that is too long the head, and of a fault both ends: what went wrong stands at the end.
    """
    told = [one_line(text).rstrip(".;") for text in (insights, learning)]
    if text := "; ".join(filter(None, told)):
        return shortened_line(text, FOUND_CHARS)
    if outcome == "success":
        return shortened_line(one_line(output[: FOUND_CHARS * 2]) or "no output", FOUND_CHARS)
    return (
        f"{outcome}: {both_ends(one_line(output), FOUND_CHARS - len(outcome) - 2) or 'no output'}"
    )


def by_relevance(items: Iterable[_T], relevance: Callable[[_T], str]) -> list[_T]:
    """Order by relevance, the given order kept within it; an unknown relevance counts as medium."""
    tiers: dict[str, list[_T]] = {name: [] for name in RELEVANCES}
    for item in items:
        tiers.get(relevance(item), tiers["medium"]).append(item)
    return [item for tier in tiers.values() for item in tier]


def as_text(value: Any) -> str:
    """Write a value as text: a missing one is empty, a list of sentences is joined."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "; ".join(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def one_line(text: str) -> str:
    """Put a text on one line."""
    return " ".join(text.split())


def shortened_line(text: str, max_chars: int) -> str:
    """Cut a line that is too long, with a mark."""
    return text if len(text) <= max_chars else text[: max(max_chars - 1, 0)] + "…"
