"""What a thought is about, and whether two thoughts say the same: by words, never by substrings.

Models think in free text, so the rules about thoughts (`theme`, `repeated_planning`) need a reading
of it that a person can check by eye: a table of words. It knows no language model, no state and no
threshold of the gate.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from rapidfuzz import fuzz

Theme = Literal["planning", "synthesis", "search_intent", "read_intent", "general"]

THEMES: Mapping[Theme, Sequence[str]] = {
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
"""Words and phrases of each theme in their base form; where several match, the first theme wins."""


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
_COMPARED_CHARS = 4000
_NEAR_RATIO = 90.0
_NEAR_MIN_WORDS = 3
_SHORTEST_STEM = 3


def theme(text: str, table: Mapping[Theme, Sequence[str]] = THEMES) -> Theme:
    """Say what a thought is about: the first theme of `table` with a word or phrase in the text.

    Whole words and their inflections only: "planning" is planning, "planet" is not.
    """
    words = [match.group().casefold() for match in _WORD.finditer(text)]
    for name, entries in table.items():
        if any(_occurs(entry, words) for entry in entries):
            return name
    return "general"


def near(a: str, b: str) -> bool:
    """Say whether two thoughts are one thought, perhaps re-phrased.

    Conservative: other numbers, other names or paths, or another negation make another thought,
    and texts of fewer than three telling words must have the same ones.
    """
    first, second = tokens(a[:_COMPARED_CHARS]), tokens(b[:_COMPARED_CHARS])
    if _particulars(first) != _particulars(second) or _negations(first) != _negations(second):
        return False
    left, right = _telling(first), _telling(second)
    if not left or not right:
        return first == second
    if min(len(left), len(right)) < _NEAR_MIN_WORDS:
        return left == right
    return fuzz.ratio(" ".join(sorted(left)), " ".join(sorted(right))) >= _NEAR_RATIO


def tokens(text: str) -> list[str]:
    """Cut a text into lower-case words; paths, versions and names with signs in them stay whole."""
    plain = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return [match.group().strip("'-:").casefold() for match in _TOKEN.finditer(plain)]


def is_particular(token: str) -> bool:
    """Say whether a token names one thing (a number, a path, an identifier) and has no synonym."""
    return token in NUMBER_WORDS or not token.replace("'", "").replace("-", "").isalpha()


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Take the ending of an inflected English word off; good enough to compare, not to show."""
    if word.endswith("ies") and len(word) > _SHORTEST_STEM + 1:
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= _SHORTEST_STEM and _VOWEL.search(root):
            return word if word.endswith("ss") else _undoubled(root).removesuffix("e")
    return word.removesuffix("e") if len(word) > _SHORTEST_STEM else word


def _undoubled(root: str) -> str:
    doubled = root[-1] == root[-2] and root[-1] not in "aeioulsz"
    return root[:-1] if doubled else root


def _occurs(entry: str, words: Sequence[str]) -> bool:
    head, *rest = entry.casefold().split()
    forms = inflections(head)
    return any(
        word in forms and list(words[at + 1 : at + 1 + len(rest)]) == rest
        for at, word in enumerate(words)
    )


@lru_cache(maxsize=1024)
def inflections(word: str) -> frozenset[str]:
    """Give the regular English forms of a base word: plan, plans, planned, planning."""
    endings = {word, word + "s", word + "es", word + "ed", word + "ing"}
    if word.endswith("e"):
        endings |= {word + "d", word[:-1] + "ing"}
    elif word.endswith("y"):
        endings |= {word[:-1] + "ies", word[:-1] + "ied"}
    elif not _VOWEL.match(word[-1]):
        endings |= {word + word[-1] + "ed", word + word[-1] + "ing"}
    return frozenset(endings)


def _particulars(words: Sequence[str]) -> list[str]:
    return sorted({word for word in words if is_particular(word)})


def _negations(words: Sequence[str]) -> int:
    return sum(word in NEGATIONS for word in words) % 2


def _telling(words: Sequence[str]) -> set[str]:
    return {stem(word) for word in words if word not in FILLERS and word not in NEGATIONS}
