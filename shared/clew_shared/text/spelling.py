"""The known name that a misspelt one probably means, for "did you mean". Pure."""

from collections.abc import Iterable

CLOSE_ENOUGH = 0.7
LONGEST = 80  # longer words are no misspellings; comparing them would cost time


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant, whole or by its beginning; None where there is none."""
    if len(word) > LONGEST:
        return None
    from difflib import get_close_matches  # most names are spelt right

    names = list(known)
    meant = {one[: len(word)]: one for one in reversed(names)} | {one: one for one in names}
    found = get_close_matches(word.lower(), meant, n=1, cutoff=CLOSE_ENOUGH)
    return meant[found[0]] if found else None
