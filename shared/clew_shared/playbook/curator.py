"""When two strategies mean the same or contradict each other, by their words; in doubt two strategies differ."""

import re
from functools import lru_cache
from typing import NamedTuple


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEGATIONS = _words(
    "not no never dont don't doesn't didn't cannot can't won't shouldn't mustn't without avoid avoiding "
    "skip skipping"
)
_FILLERS = _words(
    "a an the this that it its i we you your to of in on at for by with as and or so then now is are be "
    "was will would should shall must can could may do does have has please ok okay any all each every "
    "always use using need needs code suite existing them making"
)
_SYNONYMS = {
    word: root
    for root, listed in {
        "directory": "folder dir",
        "run": "execut launch",
        "chang": "modify alter modification",
        "remov": "delet",
        "check": "verify ensur inspect examin look",
        "dependency": "packag requirement",
        "repository": "repo",
    }.items()
    for word in listed.split()
}
_OPPOSITES = {"disabl": "enabl", "exclud": "includ", "forbid": "allow", "deny": "allow"}
_SWAPPED_BY = frozenset({"over", "than", "instead"})
_DIRECTIONS = frozenset({"from", "into", "onto"}) | _SWAPPED_BY
_TOKEN = re.compile(r"[\w./\\+#@:~'-]*[\w+#]")
_VOWEL = re.compile(r"[aeiouy]")
_SEEN = re.compile(r"\s*\(seen: .*\)\s*$", re.DOTALL)
_ORDER = re.compile(r"\b(before|after)\b", re.IGNORECASE)
_SHORTEST_STEM = 3


def tokens(text: str) -> list[str]:
    """Return the lower-case words of a text; paths, versions and names with signs in them stay whole."""
    plain = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return [match.group().strip("'-:").casefold() for match in _TOKEN.finditer(plain)]


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Return an inflected English word without its ending; good enough to compare, not to show."""
    if word.endswith("ies") and len(word) > _SHORTEST_STEM + 1:
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s"):
        root = word.removesuffix(ending)
        if root != word and len(root) >= _SHORTEST_STEM and _VOWEL.search(root):
            doubled = root[-1] == root[-2] and root[-1] not in "aeioulsz" and len(root) > 3
            plain = root[:-1] if doubled else root  # "add" has two of its own
            return word if word.endswith("ss") else plain.removesuffix("e")
    return word.removesuffix("e") if len(word) > _SHORTEST_STEM else word


class Meaning(NamedTuple):
    """What a strategy says: its steps, with negated words, and the words whose order matters (names, numbers)."""

    steps: tuple[frozenset[tuple[str, bool]], ...]
    order: tuple[str, ...]

    @property
    def words(self) -> list[set[str]]:
        """The words of each step, negated or not."""
        return [{word for word, _ in step} for step in self.steps]


@lru_cache(maxsize=4096)
def meaning(text: str) -> Meaning:
    """Return what a strategy says, without the evidence in a closing "(seen: …)"."""
    plain = without_evidence(text)
    words = tokens(plain)
    steps = tuple(frozenset(_flagged(tokens(part))) for part in _in_order(plain))
    if _DIRECTIONS.isdisjoint(words):
        return Meaning(steps, tuple(filter(_is_particular, words)))
    return Meaning(steps, tuple(word for word, _ in _flagged(words)))


def without_evidence(text: str) -> str:
    """Return the text of a strategy without the "(seen: …)" at its end."""
    return _SEEN.sub("", text)


def key_words(text: str) -> frozenset[str]:
    """Return the words that say what a text is about, to compare two texts."""
    return frozenset(word for word, _ in _flagged(tokens(text)))


def same(a: str, b: str) -> bool:
    """Return whether two strategies mean the same; in doubt they do not."""
    first, second = meaning(a), meaning(b)
    if not any(first.steps) or not any(second.steps):
        return tokens(a) == tokens(b)
    return first == second


def opposite(a: str, b: str) -> bool:
    """Return whether two strategies contradict: one negates the other, or reverses its order."""
    first, second = meaning(a), meaning(b)
    if first.words != second.words:
        return len(first.steps) > 1 and first.steps == second.steps[::-1]
    swapped = first.order != second.order and not _SWAPPED_BY.isdisjoint(first.order)
    return first.steps != second.steps or swapped


def _is_particular(token: str) -> bool:
    return not token.replace("'", "").replace("-", "").isalpha()


def _in_order(text: str) -> list[str]:
    """Split "X before Y", "Y after X", "Before Y, X" and "After X, Y" into [X, Y]."""
    found = _ORDER.search(text)
    if not found:
        return [text]
    head, tail = text[: found.start()], text[found.end() :]
    if not _flagged(tokens(head)) and "," in tail:
        tail, _, head_after = tail.partition(",")
        head += " " + head_after
    parts = [head, tail]
    return parts if found.group().casefold() == "before" else parts[::-1]


def _flagged(words: list[str]) -> list[tuple[str, bool]]:
    """Return the key words, each with whether it is negated; a negation applies to the next key word."""
    found: list[tuple[str, bool]] = []
    negated = False
    for word, following in zip(words, [*words, ""][1:], strict=True):
        if word in _NEGATIONS or (word == "stop" and following.endswith("ing")):
            negated = not negated
        elif word not in _FILLERS:
            root = word if _is_particular(word) else stem(word)
            root = _SYNONYMS.get(root, root)
            found.append((_OPPOSITES.get(root, root), negated != (root in _OPPOSITES)))
            negated = False
    return found
