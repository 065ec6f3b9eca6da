"""The known name that a misspelt one probably means, for "did you mean". Pure."""

from collections.abc import Iterable

CLOSE_ENOUGH = 0.7
"""Similarity, of 1, from which on an unknown name counts as a misspelling of a known one."""

_OF_A_BEGINNING = 0.9
"""What a word like the beginning of a known one counts."""

_EPSILON = 1e-9
LONGEST = 80
"""Longer words are no misspellings; comparing them would cost time."""


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant, or None."""
    if len(word) > LONGEST:
        return None
    from difflib import SequenceMatcher  # most names are spelt right

    matcher, best, found = SequenceMatcher(b=word.lower(), autojunk=False), CLOSE_ENOUGH, None
    for one in known:
        for part, weight in ((one, 1.0), (one[: len(word)], _OF_A_BEGINNING)):
            matcher.set_seq1(part)
            # the first two are upper bounds of the third, and cheaper: there may be thousands of goals
            bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
            if all(weight * bound() >= best for bound in bounds):
                best, found = weight * matcher.ratio() + _EPSILON, one
    return found
