"""Which goal a word means: an id, a name that its goal file gave it, or the beginning of one. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NAME_CHARS_MAX = 64
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


def name_fault(name: str) -> str:
    """Return why a goal cannot have this name, "" where it can."""
    if len(name) > NAME_CHARS_MAX:
        return f"has {len(name)} characters; at most {NAME_CHARS_MAX} are allowed"
    if not _NAME.fullmatch(name):
        return (
            "must be lower-case letters, digits, `-`, `_` and `.`, beginning with a letter or digit"
        )
    return ""


def meant(word: str, names: Mapping[str, str], ended: Callable[[str], bool]) -> list[str]:
    """List the goals that a word may mean, in any case: an id goes before a name, both before a beginning.

    `names` has each goal's name by its id, "" for none, in the order of acceptance. Of several goals with one
    name the living one is meant, else the newest.
    """
    word = word.lower()
    if word in names:
        return [word]
    bearers = [goal for goal, name in names.items() if word and name == word]
    if bearers:
        return [_bearer(bearers, ended)]
    found = [goal for goal, name in names.items() if goal.startswith(word) or name.startswith(word)]
    shared = {names[goal] for goal in found}
    if word and len(shared) == 1 and shared.pop().startswith(word):
        return [_bearer(found, ended)]
    return sorted(found)


def _bearer(goals: Sequence[str], ended: Callable[[str], bool]) -> str:
    """Return which of the goals with one name is meant."""
    if len(goals) == 1:
        return goals[0]
    return next((goal for goal in goals if not ended(goal)), goals[-1])
