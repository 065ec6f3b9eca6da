"""The known name that a misspelt one probably means, for "did you mean". Pure."""

from collections.abc import Iterable

CLOSE_ENOUGH = 70
"""Similarity, of 100, from which on an unknown name counts as a misspelling of a known one."""

LONGEST = 80
"""Longer words are no misspellings; comparing them would cost time."""


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant, or None."""
    if len(word) > LONGEST:
        return None
    from rapidfuzz import process  # costs 20 ms, and most names are spelt right

    found = process.extractOne(word.lower(), list(known), score_cutoff=CLOSE_ENOUGH)
    return found[0] if found else None
