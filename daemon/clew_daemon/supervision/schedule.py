"""Which goals get a worker now: a pure function of the goals' states, who runs, and the time.

Knows priorities, `not_before`, dependencies and workspaces; nothing about processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING

from clew_daemon.record.naming import Names
from clew_shared.record.model import GoalStatus
from clew_shared.record.moment import iso
from clew_shared.text.spelling import closest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from clew_shared.record.state import State

ENDED_BADLY = (GoalStatus.FAILED, GoalStatus.CANCELLED)
NONE_GONE: Mapping[str, str] = MappingProxyType({})
FOR_A_WORKER = "waits for a worker"
SHOWN_MAX = 5
"""How many goals are named that one name in `depends_on` may mean."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """What a name in `depends_on` means now: the goals it may mean; `status` where it is one ("": unknown)."""

    name: str
    goals: tuple[str, ...]
    status: str = ""

    @property
    def goal(self) -> str:
        return self.goals[0] if len(self.goals) == 1 else ""


class Known:
    """The goals of one moment and those that retention removed, indexed for many look-ups by name.

    `gone` has the removed ones with their last status. Make one for each round, and none outlives an `await`:
    what a name means changes with the goals.
    """

    def __init__(self, states: Mapping[str, State], gone: Mapping[str, str] = NONE_GONE) -> None:
        self.states, self.gone = states, gone
        self._found: dict[tuple[str, str], Dependency] = {}

    def dependency(self, name: str, owner: str) -> Dependency:
        """Return what a name in the `depends_on` of the goal `owner` means: a name, an id, or a beginning of one.

        A goal that is still on record goes before those that were removed, any other before the owner itself.
        """
        owned = self.states.get(owner)
        words = (owner, owned.spec.name) if owned else ()
        key = name, owner if any(word.startswith(name.lower()) for word in words) else ""
        if key not in self._found:
            self._found[key] = self._look_up(*key)
        return self._found[key]

    def named(self, name: str) -> list[str]:
        """List the goals that a name may mean: an id, the name of a goal, or the beginning of either."""
        return self._names.meant(name)

    def _look_up(self, name: str, owner: str) -> Dependency:
        goals = self._names.meant(name, besides=owner) or self._gone_names.meant(name)
        goals = goals or ([owner] if owner else [])
        if len(goals) != 1:
            return Dependency(name, tuple(goals))
        state = self.states.get(goals[0])
        status = str(state.goal.status) if state else self.gone[goals[0]]
        return Dependency(name, tuple(goals), status)

    @cached_property
    def in_turn(self) -> list[State]:
        """The goals that have not ended, in the order in which they get a worker."""
        return sorted((s for s in self.states.values() if not s.ended), key=_rank)

    def sharing(self, workspace: str) -> Iterator[list[State]]:
        """Yield the goals that have not ended and overlap a workspace: those in it or below, and in each above."""
        at, *above = _upwards(workspace)
        yield self._below.get(at, [])
        for folder in above:
            yield self._at.get(folder, [])

    @cached_property
    def _at(self) -> dict[str, list[State]]:
        return _grouped((_upwards(s.spec.workspace)[0], s) for s in self.in_turn)

    @cached_property
    def _below(self) -> dict[str, list[State]]:
        return _grouped((folder, s) for s in self.in_turn for folder in _upwards(s.spec.workspace))

    @cached_property
    def _names(self) -> Names:
        names = {goal: state.spec.name for goal, state in self.states.items()}
        return Names(names, lambda goal: self.states[goal].ended)

    @cached_property
    def _gone_names(self) -> Names:
        return Names(dict.fromkeys(self.gone, ""), lambda _: True)


def dependencies(state: State, known: Known) -> list[Dependency]:
    """Return what a goal's `depends_on` means."""
    return [known.dependency(name, state.goal_id) for name in state.spec.depends_on]


def bound(names: Iterable[str], known: Known) -> tuple[str, ...]:
    """Replace each unique beginning in `depends_on` by the name that it begins, or else the id.

    So no later goal makes it ambiguous. A name stays a name: a goal that takes it next is the one meant then.
    """
    return tuple(dict.fromkeys(_bound(known.dependency(name, ""), known) for name in names))


def _bound(one: Dependency, known: Known) -> str:
    state, word = known.states.get(one.goal), one.name.lower()
    if state and word != one.goal and state.spec.name.startswith(word):
        return state.spec.name
    return one.goal or one.name


def holder(name: str, states: Mapping[str, State], besides: str = "") -> str:
    """Return the living goal that has this name, or the goal on record that has it as its id; "" where there is none.

    `besides` is a goal that does not count.
    """
    if name in states and name != besides:
        return name
    living = (g for g, s in states.items() if name and s.spec.name == name and not s.ended)
    return next((goal for goal in living if goal != besides), "")


def cycle(new: State, known: Known) -> list[str]:
    """Return the goals, by name or id, through which a new goal would wait for itself; [] where it would not."""
    known = Known({**known.states, new.goal_id: new}, known.gone)
    for one in dependencies(new, known):
        if one.goal == new.goal_id:
            return [called(new)] * 2
        if one.goal in known.states and (way := _circle(one.goal, new.goal_id, known)):
            return [called(known.states[goal]) for goal in way]
    return []


def called(state: State) -> str:
    """Return what people call a goal: its name, or else its id."""
    return state.spec.name or state.goal_id


def due(
    known: Known,
    running: Collection[str],
    now: float,
    max_workers: int,
    waited: Collection[str] = (),
) -> list[str]:
    """Return the goals to start, best first; `now` in seconds since 1970, `waited` have waited long enough.

    Larger priority first, then those that did not wait for a retry, then the earlier accepted. Two goals never work
    in the same or a nested workspace at once: the later one waits its turn, also behind one that itself waits for a
    workspace.
    """
    free = max_workers - len(running)
    taken = [known.states[goal].spec.workspace for goal in running]
    chosen: list[str] = []
    for state in known.in_turn:
        if len(chosen) >= free:
            break
        if state.goal_id in running or not ready(state, known, now, waited):
            continue
        workspace = state.spec.workspace
        if not any(overlap(workspace, other) for other in taken):
            chosen.append(state.goal_id)
        taken.append(workspace)
    return chosen


def waits_for(
    state: State, known: Known, running: Collection[str], now: float, *, hint: bool = False
) -> str:
    """Return what a queued goal waits for, "" where the goal is not queued.

    `hint` adds what an unknown name was probably meant to be; that compares it with every goal, so ask it of one.
    """
    if state.goal.status != GoalStatus.QUEUED:
        return ""
    if told := _awaits(state, known, hint=hint):
        return told
    not_before = state.spec.not_before
    if not_before is not None and now < not_before:
        return f"waits until {iso(not_before)}"
    workspace = state.spec.workspace
    for goal in running:
        if goal != state.goal_id and overlap(workspace, known.states[goal].spec.workspace):
            return f"waits for the workspace, where {goal} works"
    if ahead := _ahead(state, known, now):
        return f"waits for the workspace, where {ahead} goes first"
    return FOR_A_WORKER


def _ahead(state: State, known: Known, now: float) -> str:
    """Return the goal that is ready, too, and gets the workspace of this one before it; "" where there is none."""
    for line in known.sharing(state.spec.workspace):
        for other in line:
            if _rank(other) >= _rank(state):
                break
            if ready(other, known, now):
                return other.goal_id
    return ""


def _grouped(pairs: Iterable[tuple[str, State]]) -> dict[str, list[State]]:
    groups: dict[str, list[State]] = {}
    for key, state in pairs:
        groups.setdefault(key, []).append(state)
    return groups


def _upwards(folder: str) -> list[str]:
    """Return a folder and all those that it lies in."""
    path = PurePosixPath(folder)
    return [str(one) for one in (path, *path.parents)]


def ready(
    state: State,
    known: Known,
    now: float,
    waited: Collection[str] = (),
) -> bool:
    """Tell whether a goal could work now if there were room."""
    match state.goal.status:
        case GoalStatus.IN_PROGRESS:
            return True
        case GoalStatus.WAITING:
            if state.paused or state.wait_until is None:
                return False
            return state.wait_until <= now or state.goal_id in waited
        case GoalStatus.QUEUED:
            not_before = state.spec.not_before
            early = not_before is not None and now < not_before
            if early:
                return False
            return all(one.status == GoalStatus.COMPLETED for one in dependencies(state, known))
        case _:
            return False


def next_moment(states: Iterable[State], now: float) -> float | None:
    """Return the earliest moment after `now` at which time alone makes a goal ready, None for never."""
    moments = [
        at
        for s in states
        for at in (
            s.wait_until if s.goal.status == GoalStatus.WAITING and not s.paused else None,
            s.spec.not_before if s.goal.status == GoalStatus.QUEUED else None,
        )
        if at is not None and at > now
    ]
    return min(moments, default=None)


def lost_dependency(state: State, known: Known) -> Dependency | None:
    """Return a dependency that ended without being completed, None where there is none."""
    if state.goal.status != GoalStatus.QUEUED:
        return None
    return next((one for one in dependencies(state, known) if one.status in ENDED_BADLY), None)


def overlap(a: str, b: str) -> bool:
    """Tell whether two workspaces are the same, or one lies in the other."""
    one, other = PurePosixPath(a), PurePosixPath(b)
    return one == other or one in other.parents or other in one.parents


def awaited(known: Known) -> dict[str, str]:
    """Return for each queued goal with a dependency that is not completed what it waits for."""
    return {
        goal: told
        for goal, state in known.states.items()
        if state.spec.depends_on and (told := _awaits(state, known))
    }


def _awaits(state: State, known: Known, *, hint: bool = False) -> str:
    if state.goal.status != GoalStatus.QUEUED:
        return ""
    for one in dependencies(state, known):
        if one.status != GoalStatus.COMPLETED:
            return f"waits for {_told(one, state, known)}{_near(one, state, known) if hint else ''}"
    return ""


def _near(one: Dependency, state: State, known: Known) -> str:
    """Return what a name that means no goal was probably meant to be, "" where it means one or nothing is near."""
    if one.goals:
        return ""
    others = {n for g, s in known.states.items() if s is not state for n in (g, s.spec.name)}
    candidates = (name for name in {*others, *known.gone} if len(name) > len(one.name) // 2)
    near = closest(one.name, candidates)
    return f"; did you mean {near}?" if near else ""


def _told(one: Dependency, state: State, known: Known) -> str:
    """Return what a dependency is that is not completed, and what to do where it never will be."""
    again = f"`clew cancel {state.goal_id}` and submit its file again"
    if len(one.goals) > 1:
        shown = ", ".join(one.goals[:SHOWN_MAX]) + (", …" if len(one.goals) > SHOWN_MAX else "")
        return f"{one.name}, which matches {len(one.goals)} goals ({shown}): {again} with the id of one"
    if not one.goals:
        return f"{one.name}, which is not known yet"
    if one.goal == state.goal_id:
        return f"{one.name}, which is this goal itself: {again} without it"
    if one.goal not in known.states:
        how = one.status or "ended and was removed; whether it was completed is not on record"
        return f"{one.goal}, which {how}: {again} without it"
    if circle := _circle(one.goal, state.goal_id, known):
        return f"{one.goal}, which waits for this goal ({' → '.join(circle)}): cancel one of them"
    return f"{one.goal}, which is {one.status}"


def _circle(start: str, end: str, known: Known) -> list[str]:
    """Return the way by which a goal waits for another one, or will; [] where it doesn't."""
    came_from = {start: ""}
    left = [start]
    while left:
        goal = left.pop()
        if goal == end:
            way = [goal]
            while way[-1] != start:
                way.append(came_from[way[-1]])
            return [end, *reversed(way)]
        state = known.states[goal]
        if state.ended or (state.started_at and state.goal.status != GoalStatus.QUEUED):
            continue  # it waits for none of them any more
        for one in dependencies(state, known):
            if one.goal in known.states and one.goal not in came_from:
                came_from[one.goal] = goal
                left.append(one.goal)
    return []


def _rank(state: State) -> tuple[int, bool, int]:
    """Return a goal's place in turn: one that retries (a dead endpoint, say) goes behind those that did not wait."""
    return -state.spec.priority, state.waits_for_time, state.accepted_seq
