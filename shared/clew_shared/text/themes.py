"""The theme of a thought, by whole words, never by substrings.

The rule `theme` judges free text by a table of words, so that a person can check each result. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

GENERAL = "general"
"""The theme of a thought in which no theme's words occur."""

THEMES: Mapping[str, Sequence[str]] = {
    "planning": ("plan", "strategy", "approach", "need to"),
    "synthesis": (
        *("synthesize", "synthesise", "synthesis", "combine", "overall"),
        *("summary", "summarize", "summarise"),
    ),
    "search_intent": ("search", "find", "look for"),
    "read_intent": ("read", "article", "page"),
}
"""Words and phrases of each theme in their base form; where several match, the first theme wins."""


_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")  # noqa: RUF001 (people type both apostrophes)
_VOWEL = re.compile(r"[aeiouy]")


def theme(text: str) -> str:
    """Return the first theme that has a word or phrase of the text, or GENERAL.

    Only whole words and their inflections count: "planning" is a form of "plan", "planet" is not.
    """
    words = spoken(text)
    matching = (name for name, entries in THEMES.items() if any(_occurs(e, words) for e in entries))
    return next(matching, GENERAL)


def spoken(text: str) -> list[str]:
    """Return the words by which themes are found: letters only, lower case."""
    return [match.group().casefold() for match in _WORD.finditer(text)]


def _occurs(entry: str, words: Sequence[str]) -> bool:
    first, *rest = spoken(entry) or [""]
    forms = inflections(first)
    return any(w in forms and words[n + 1 : n + 1 + len(rest)] == rest for n, w in enumerate(words))


@lru_cache(maxsize=1024)
def inflections(word: str) -> frozenset[str]:
    """Return the regular English forms of a base word: plan, plans, planned, planning."""
    if not word:
        return frozenset()
    endings = {word, word + "s", word + "es", word + "ed", word + "ing"}
    if word.endswith("e"):
        endings |= {word + "d", word[:-1] + "ing"}
    elif word.endswith("y"):
        endings |= {word[:-1] + "ies", word[:-1] + "ied"}
    elif not _VOWEL.match(word[-1]):
        endings |= {word + word[-1] + "ed", word + word[-1] + "ing"}
    return frozenset(endings)
