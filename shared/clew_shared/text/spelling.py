"""The known name that a misspelt one probably means, for "did you mean". Pure."""

from collections.abc import Iterable

CLOSE_ENOUGH = 0.7
LONGEST = 80
"""Longer words are no misspellings; comparing them would cost time."""


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant, or None; a word like the beginning of one counts 0.9 of it."""
    if len(word) > LONGEST:
        return None
    from difflib import SequenceMatcher  # most names are spelt right

    matcher, best, found = SequenceMatcher(b=word.lower(), autojunk=False), CLOSE_ENOUGH, None
    for one in known:
        for part, weight in ((one, 1.0), (one[: len(word)], 0.9)):
            matcher.set_seq1(part)
            # the first two are upper bounds of the third, and cheaper: there may be thousands of goals
            bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
            if all(weight * bound() >= best for bound in bounds):
                best, found = weight * matcher.ratio() + 1e-9, one
    return found
