"""Which goals a text means (an id, a name or a beginning), and in which order they get a worker. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

from clew_shared.record.model import GoalStatus
from clew_shared.record.moment import roughly
from clew_shared.record.state import State

NAME_CHARS_MAX, SHOWN_MAX = 64, 8

T = TypeVar("T")
StateOf = Callable[[str], State]  # of a goal by its id
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


def named(text: str, names: Mapping[str, str], state_of: StateOf, besides: str = "") -> list[str]:
    """Return the goals that a text may mean, in any case: an id comes before a name, both before a beginning.

    `names` has each goal's name by its id, "" for none, in the order of acceptance. Of several goals with one name the
    unfinished one is meant, else the newest. `besides` does not count.
    """
    text = text.lower()
    if text in names and text != besides:
        return [text]
    known = [(goal, name) for goal, name in names.items() if goal != besides]
    if bearers := [goal for goal, name in known if name and name == text]:
        return [_bearer(bearers, state_of)]
    found = [(g, n) for g, n in known if g.startswith(text) or (n and n.startswith(text))]
    goals, shared = [goal for goal, _ in found], {name for _, name in found}
    if text and len(shared) == 1 and shared.pop().startswith(text):
        return [_bearer(goals, state_of)]
    return sorted(goals)


def _bearer(goals: Sequence[str], state_of: StateOf) -> str:
    return next((goal for goal in goals if not state_of(goal).ended), goals[-1])


def meant(text: str, names: Mapping[str, str], state_of: StateOf) -> list[str]:
    """Return the goals that a person's text may mean; of several, those still listed (not `removed`)."""
    found = named(text, names, state_of)
    if len(found) <= 1:
        return found
    return [goal for goal in found if not state_of(goal).removed] or found


def ambiguous(text: str, found: Iterable[State], now: float) -> str:
    """Return that a text may mean several goals, with the status and the age of each, the newest first."""
    shown = [
        f"{one.goal_id} ({'paused' if one.paused else one.goal.status}, {roughly(now - one.accepted_at)} old)"
        for one in sorted(found, key=lambda one: -one.accepted_at)
    ]
    more = f", and {len(shown) - SHOWN_MAX} more" if len(shown) > SHOWN_MAX else ""
    return f"{text!r} matches {len(shown)} goals: {', '.join(shown[:SHOWN_MAX])}{more}"


class Dependency(NamedTuple):
    """What a name in `depends_on` means now: the goals it may mean, and the `status` if it is one ("": unknown)."""

    name: str
    goals: tuple[str, ...]
    status: str = ""

    @property
    def goal(self) -> str:
        return self.goals[0] if len(self.goals) == 1 else ""


class KnownGoals:
    """The goals at one moment and the purged ones, indexed for many look-ups by name.

    `gone` has the purged goals with their last status. Make a new one for each round, and use none after an `await`:
    what a name means changes with the goals.
    """

    def __init__(self, states: Mapping[str, State], gone: Mapping[str, str] | None = None) -> None:
        self.states, self.gone = states, gone or {}
        self._found: dict[tuple[str, str], Dependency] = {}

    def dependency(self, name: str, owner: str) -> Dependency:
        """Return what a name in the `depends_on` of `owner` means: a goal on record, or purged, or itself."""
        owned = self.states.get(owner)
        words = (owner, owned.spec.name) if owned else ()
        key = name, owner if any(word.startswith(name.lower()) for word in words) else ""
        if key not in self._found:
            self._found[key] = self._look_up(*key)
        return self._found[key]

    def named(self, text: str, besides: str = "") -> list[str]:
        """Return what the function does for the goals on record; a whole id or name is found without a search."""
        same = [goal for goal in self._bearers.get(text.lower(), ()) if goal != besides]
        if same and text.lower() not in self.states:
            return [_bearer(same, self.states.__getitem__)]
        return named(text, self._names, self.states.__getitem__, besides)

    def _look_up(self, name: str, owner: str) -> Dependency:
        gone = dict.fromkeys(self.gone, "")
        goals = self.named(name, owner) or named(name, gone, self.states.__getitem__)
        goals = goals or ([owner] if owner else [])
        if len(goals) != 1:
            return Dependency(name, tuple(goals))
        state = self.states.get(goals[0])
        status = str(state.goal.status) if state else self.gone[goals[0]]
        return Dependency(name, tuple(goals), status)

    @cached_property
    def in_turn(self) -> list[State]:
        """The goals that have not ended, in the order in which they get a worker."""
        return sorted((s for s in self.states.values() if not s.ended), key=rank)

    @cached_property
    def _names(self) -> dict[str, str]:
        return {goal: state.spec.name for goal, state in self.states.items()}

    @cached_property
    def _bearers(self) -> dict[str, list[str]]:
        bearers: dict[str, list[str]] = {}
        for goal, name in self._names.items():
            bearers.setdefault(name, []).append(goal)
        return bearers


def dependencies(state: State, known: KnownGoals) -> list[Dependency]:
    """Return what a goal's `depends_on` means."""
    return [known.dependency(name, state.goal_id) for name in state.spec.depends_on]


def bound(names: Iterable[str], known: KnownGoals) -> tuple[str, ...]:
    """Replace each unique beginning in `depends_on` by the name that it begins, or else the id, to stay unambiguous."""
    found: dict[str, None] = {}
    for name in names:
        goal = known.dependency(name, "").goal
        own = known.states[goal].spec.name if goal in known.states else ""
        is_name = name.lower() != goal and own.startswith(name.lower())
        found[own if is_name else goal or name] = None
    return tuple(found)


def holder(name: str, states: Mapping[str, State], besides: str = "") -> str:
    """Return the unfinished goal of this name, or the goal with it as its id, not `besides`; "" if there is none."""
    if name in states and name != besides:
        return name
    living = (g for g, s in states.items() if name and s.spec.name == name and not s.ended)
    return next((goal for goal in living if goal != besides), "")


def cycle(new: State, known: KnownGoals) -> list[str]:
    """Return the goals, by name or id, through which a new goal would wait for itself; [] if it would not."""
    known = KnownGoals({**known.states, new.goal_id: new}, known.gone)
    for one in dependencies(new, known):
        if one.goal == new.goal_id:
            return [called(new)] * 2
        if one.goal in known.states and (way := circle(one.goal, new.goal_id, known)):
            return [called(known.states[goal]) for goal in way]
    return []


def called(state: State) -> str:
    """Return a goal's name, or else its id."""
    return state.spec.name or state.goal_id


def circle(start: str, end: str, known: KnownGoals) -> list[str]:
    """Return the path by which a goal waits for another one, or will; [] if it does not."""
    left, seen = [[start]], {start}
    while left:
        way = left.pop()
        if way[-1] == end:
            return [end, *way]
        state = known.states[way[-1]]
        if state.ended or (state.started_at and state.goal.status != GoalStatus.QUEUED):
            continue  # it waits for none of them any more
        for one in dependencies(state, known):
            if one.goal in known.states and one.goal not in seen:
                seen.add(one.goal)
                left.append([*way, one.goal])
    return []


def rank(state: State) -> tuple[int, bool, int]:
    """Return the key by which goals get a worker in order; one that retries comes after those that did not wait."""
    return -state.spec.priority, state.waits_for_time, state.accepted_seq
