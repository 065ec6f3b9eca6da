"""The theme of a thought, and whether two thoughts are the same: by words, never by substrings.

The rules about thoughts (`theme`, `repeated_planning`) judge free text by tables of words, so that a person can check
each result. Pure: no language model, no state, no threshold of the gate.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

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
_FRAMES = _words(
    "first next finally afterwards because since while want wants like try again also still just simply i'd i've "
    "we'd we've we'll think believe plan plans planning idea best way forward step steps proceed"
)
"""Words that introduce a plan and do not belong to its content."""

_MUSING = _words(
    "about what which where when why how who maybe perhaps consider considering wonder thinking thought look looking "
    "see something anything thing things more other another some different before after into from carefully deeply "
    "start started starting begin really right well hm hmm problem question option options"
)
"""Words about thinking itself, which name nothing."""

_DETERMINERS = _words("a an the this that my our your its their each every")

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")  # noqa: RUF001 (people type both apostrophes)
_TOKEN = re.compile(r"[\w./\\+#@:~'-]*[\w+#]")
_VOWEL = re.compile(r"[aeiouy]")
_COMPARED_CHARS = 4000
_NEAR = 0.88
_NEAR_MIN_WORDS = 3
_NEW_WORDS_MIN = 4
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


def echoes(text: str, earlier: Iterable[str]) -> bool:
    """Return whether a thought repeats one of the earlier ones, perhaps in other words.

    A thought of fewer than three significant words ("Hm, let me see") says too little to be a plan.
    """
    if len(_significant(_content(text))) < _NEAR_MIN_WORDS:
        return False
    return any(near(text, one) for one in earlier)


def has_new_content(text: str, earlier: Iterable[str]) -> bool:
    """Return whether at least half of what a thought names, and four words of it, are in none of the earlier ones.

    A sentence about something else, such as the next step of an analysis, has as many; "let me think about step 4"
    and an old plan in other words do not. A name with signs in it, such as `created_at`, counts as two words.
    """
    words = _named(text)
    known = set[str]().union(*map(_named, earlier))
    return _weight(words - known) >= max(_NEW_WORDS_MIN, _weight(words) / 2)


def _named(text: str) -> set[str]:
    words = [w for w in _content(text) if w not in _MUSING and not w.isdigit()]
    return _significant(words)


def _weight(words: set[str]) -> int:
    return sum(1 if word.isalpha() else 2 for word in words)


def near(a: str, b: str) -> bool:
    """Return whether two thoughts are the same, perhaps re-phrased: by the overlap of their significant words.

    Conservative: other numbers, other names or paths, another negation, or a word in the place of another
    ("the login form", "the signup form") make another thought, and texts of fewer than three significant words
    must have the same ones.
    """
    first, second = _content(a), _content(b)
    if _particulars(first) != _particulars(second) or _negations(first) != _negations(second):
        return False
    left, right = _significant(first), _significant(second)
    if not left or not right:
        return first == second
    if min(len(left), len(right)) < _NEAR_MIN_WORDS:
        return left == right
    if left - right and right - left:
        return False
    return 2 * min(len(left), len(right)) >= _NEAR * (len(left) + len(right))


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


def _content(text: str) -> list[str]:
    """Return the tokens of a thought without the words that only frame it ("First, ..." counts nothing)."""
    words = tokens(text[:_COMPARED_CHARS])
    return [
        word
        for before, word in pairwise(["", *words])
        if word not in _FRAMES or (word == "first" and before in _DETERMINERS)
    ]


def _particulars(words: Sequence[str]) -> list[str]:
    return sorted({word for word in words if is_particular(word)})


def _negations(words: Sequence[str]) -> int:
    return sum(word in NEGATIONS for word in words) % 2


def _significant(words: Sequence[str]) -> set[str]:
    return {stem(word) for word in words if word not in FILLERS and word not in NEGATIONS}
