"""English words for comparing strategies: their stems, and those that carry no meaning or turn it around. Pure."""

import re
from functools import lru_cache


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
_TOKEN = re.compile(r"[\w./\\+#@:~'-]*[\w+#]")
_VOWEL = re.compile(r"[aeiouy]")
_SHORTEST_STEM = 3


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
