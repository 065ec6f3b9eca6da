"""The theme of a thought, by whole words, never by substrings.

The rule `theme` judges free text by a table of words, so that a person can check each result. Pure: no language model,
no state, no threshold of the gate.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

GENERAL = "general"
"""The theme of a thought in which no theme's words occur."""

THEMES: Mapping[str, Sequence[str]] = {
    "planning": ("plan", "strategy", "approach", "need to"),
    "synthesis": (
        "synthesize",
        "synthesise",
        "synthesis",
        "combine",
        "overall",
        "summary",
        "summarize",
        "summarise",
    ),
    "search_intent": ("search", "find", "look for"),
    "read_intent": ("read", "article", "page"),
}
"""Words and phrases of each theme in their base form; where several match, the first theme wins.

The default of `[loops.themes]`.
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NEGATIONS = _words(
    "not no never dont don't doesn't didn't cannot can't won't shouldn't mustn't isn't aren't "
    "without avoid avoiding skip skipping neither nor"
)
FILLERS = _words(
    "a an the this that these those it its i i'll i'm me my we our you your to of in on at for by "
    "with as and or so then now is are be been am was were will would should shall must can could "
    "may might do does did let let's have has had just please ok okay going here there any all "
    "each every always use using make sure need needs"
)
NUMBER_WORDS = _words(
    "zero one two three four five six seven eight nine ten first second third fourth fifth sixth "
    "seventh eighth ninth tenth once twice"
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")  # noqa: RUF001 (people type both apostrophes)
_TOKEN = re.compile(r"[\w./\\+#@:~'-]*[\w+#]")
_VOWEL = re.compile(r"[aeiouy]")
_SHORTEST_STEM = 3


def theme(text: str, table: Mapping[str, Sequence[str]] = THEMES) -> str:
    """Return the first theme in `table` that has a word or phrase of the text, or GENERAL.

    Only whole words and their inflections count: "planning" is a form of "plan", "planet" is not.
    """
    words = spoken(text)
    for name, entries in table.items():
        if any(_occurs(entry, words) for entry in entries):
            return name
    return GENERAL


def spoken(text: str) -> list[str]:
    """Return the words by which themes are found: letters only, lower case."""
    return [match.group().casefold() for match in _WORD.finditer(text)]


def merged(table: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return the built-in themes with those of `table` in their place, and its new ones after them."""
    return {name: tuple(words) for name, words in {**THEMES, **table}.items()}


def tokens(text: str) -> list[str]:
    """Return the lower-case words of a text; paths, versions and names with signs in them stay whole."""
    plain = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return [match.group().strip("'-:").casefold() for match in _TOKEN.finditer(plain)]


def is_particular(token: str) -> bool:
    """Return whether a token names one thing (a number, a path, an identifier) and has no synonym."""
    return token in NUMBER_WORDS or not token.replace("'", "").replace("-", "").isalpha()


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Return an inflected English word without its ending; good enough to compare, not to show."""
    if word.endswith("ies") and len(word) > _SHORTEST_STEM + 1:
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= _SHORTEST_STEM and _VOWEL.search(root):
            return word if word.endswith("ss") else _undoubled(root).removesuffix("e")
    return word.removesuffix("e") if len(word) > _SHORTEST_STEM else word


def _undoubled(root: str) -> str:
    doubled = root[-1] == root[-2] and root[-1] not in "aeioulsz"
    return root[:-1] if doubled and len(root) > _SHORTEST_STEM else root  # "add" has two of its own


def _occurs(entry: str, words: Sequence[str]) -> bool:
    spoken_entry = spoken(entry)
    forms, rest = inflections(spoken_entry[0]) if spoken_entry else frozenset(), spoken_entry[1:]
    return any(
        word in forms and list(words[at + 1 : at + 1 + len(rest)]) == rest
        for at, word in enumerate(words)
    )


@lru_cache(maxsize=1024)
def inflections(word: str) -> frozenset[str]:
    """Return the regular English forms of a base word: plan, plans, planned, planning."""
    endings = {word, word + "s", word + "es", word + "ed", word + "ing"}
    if word.endswith("e"):
        endings |= {word + "d", word[:-1] + "ing"}
    elif word.endswith("y"):
        endings |= {word[:-1] + "ies", word[:-1] + "ied"}
    elif not _VOWEL.match(word[-1]):
        endings |= {word + word[-1] + "ed", word + word[-1] + "ing"}
    return frozenset(endings)
