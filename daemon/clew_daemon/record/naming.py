"""Which goal a text means: an id, a name from its goal file, or the beginning of either. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from clew_shared.record.moment import roughly
from clew_shared.record.state import State

NAME_CHARS_MAX = 64
SHOWN_MAX = 8
AFTER_ALL = "\U0010ffff"
"""It sorts after every character of a name."""

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


class Names:
    """The goals by name, id and beginning, indexed for many look-ups.

    `names` has each goal's name by its id, "" for none, in the order of acceptance. The index is built by the first
    look-ups that need it; names must not change after that.
    """

    def __init__(self, names: Mapping[str, str], ended: Callable[[str], bool]) -> None:
        self._names, self._ended = names, ended

    def meant(self, text: str, besides: str = "") -> list[str]:
        """Return the goals that a text may mean, in any case: an id comes before a name, both before a beginning.

        Of several goals with one name the unfinished one is meant, else the newest. `besides` does not count.
        """
        text = text.lower()
        if text in self._names and text != besides:
            return [text]
        if bearers := [goal for goal in self._bearers.get(text, ()) if goal != besides]:
            return [_bearer(bearers, self._ended)]
        found = self._beginning_with(text, besides)
        shared = {self._names[goal] for goal in found}
        if text and len(shared) == 1 and shared.pop().startswith(text):
            return [_bearer(sorted(found, key=self._order.__getitem__), self._ended)]
        return sorted(found)

    def _beginning_with(self, text: str, besides: str) -> set[str]:
        first = bisect_left(self._keys, text)
        last = bisect_left(self._keys, text + AFTER_ALL)
        found = set(self._keys[first:last])
        goals = {goal for one in found for goal in self._bearers.get(one, ())}
        return (goals | (found & self._names.keys())) - {besides}

    @cached_property
    def _bearers(self) -> dict[str, list[str]]:
        bearers: dict[str, list[str]] = {}
        for goal, name in self._names.items():
            if name:
                bearers.setdefault(name, []).append(goal)
        return bearers

    @cached_property
    def _keys(self) -> list[str]:
        """The ids and names, sorted: those with the same beginning are neighbours."""
        return sorted(self._names.keys() | self._bearers.keys())

    @cached_property
    def _order(self) -> dict[str, int]:
        return {goal: n for n, goal in enumerate(self._names)}


def meant(
    text: str,
    names: Mapping[str, str],
    ended: Callable[[str], bool],
    removed: Callable[[str], bool] = lambda _: False,
) -> list[str]:
    """Return the goals that a person's text may mean; see `Names`, which is for many look-ups.

    Of several goals with the same beginning the unfinished one is meant, else the newest that was not `removed` from
    the lists: only several unfinished ones are ambiguous.
    """
    found = Names(names, ended).meant(text)
    if len(found) <= 1:
        return found
    living = [goal for goal in found if not ended(goal)]
    return living or [max(found, key=lambda goal: (not removed(goal), list(names).index(goal)))]


def ambiguous(text: str, found: Iterable[State], now: float) -> str:
    """Return that a text may mean several goals, with the status and the age of each."""
    shown = [
        f"{one.goal_id} ({'paused' if one.paused else one.goal.status}, {roughly(now - one.accepted_at)} old)"
        for one in found
    ]
    more = f", and {len(shown) - SHOWN_MAX} more" if len(shown) > SHOWN_MAX else ""
    return f"{text!r} matches {len(shown)} goals: {', '.join(shown[:SHOWN_MAX])}{more}"


def _bearer(goals: Sequence[str], ended: Callable[[str], bool]) -> str:
    """Return which of the goals with one name is meant."""
    if len(goals) == 1:
        return goals[0]
    return next((goal for goal in goals if not ended(goal)), goals[-1])
