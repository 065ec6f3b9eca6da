"""Which goals get a worker now: a pure function of the goals' states, who runs, and the time.

Knows priorities, `not_before`, dependencies and workspaces; nothing about processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING

from clew_shared.model import GoalStatus
from clew_shared.moment import iso
from clew_shared.naming import meant
from clew_shared.spelling import closest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from clew_shared.state import State

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


def dependencies(
    state: State, states: Mapping[str, State], gone: Mapping[str, str] = NONE_GONE
) -> list[Dependency]:
    """Return what a goal's `depends_on` means; `gone` has the goals that retention removed, with their last status."""
    return [dependency(name, state.goal_id, states, gone) for name in state.spec.depends_on]


def dependency(
    name: str, owner: str, states: Mapping[str, State], gone: Mapping[str, str] = NONE_GONE
) -> Dependency:
    """Return what a name in the `depends_on` of the goal `owner` means: a name, an id, or the beginning of one.

    A goal that is still on record goes before those that were removed, any other before the owner itself.
    """
    if name in states and name != owner:
        return Dependency(name, (name,), str(states[name].goal.status))
    goals = _meant(name, states, owner) or meant(name, dict.fromkeys(gone, ""), _ended)
    goals = goals or named(name, {owner: states[owner]} if owner in states else {})
    if len(goals) != 1:
        return Dependency(name, tuple(goals))
    state = states.get(goals[0])
    return Dependency(name, tuple(goals), str(state.goal.status) if state else gone[goals[0]])


def named(name: str, states: Mapping[str, State]) -> list[str]:
    """List the goals that a name may mean: an id, the name of a goal, or the beginning of either."""
    return _meant(name, states)


def _meant(name: str, states: Mapping[str, State], owner: str = "") -> list[str]:
    names = {goal: state.spec.name for goal, state in states.items() if goal != owner}
    return meant(name, names, lambda goal: states[goal].ended)


def _ended(_: str) -> bool:
    """Tell of goals that were removed: all of them had ended."""
    return True


def bound(
    names: Iterable[str], states: Mapping[str, State], gone: Mapping[str, str] = NONE_GONE
) -> tuple[str, ...]:
    """Replace names of `depends_on` by the ids that they mean now, so that no later goal makes one ambiguous.

    The name of a goal that has ended stays a name: a goal that takes it next is the one that is meant then.
    """
    found = [dependency(name, "", states, gone) for name in names]
    return tuple(
        dict.fromkeys(one.name if _may_pass_on(one, states) else one.goal for one in found)
    )


def _may_pass_on(one: Dependency, states: Mapping[str, State]) -> bool:
    state = states.get(one.goal)
    if state is None:
        return not one.goal
    return state.ended and bool(state.spec.name) and state.spec.name.startswith(one.name.lower())


def holder(name: str, states: Mapping[str, State], besides: str = "") -> str:
    """Return the living goal that has this name, or the goal on record that has it as its id; "" where there is none.

    `besides` is a goal that does not count.
    """
    if name in states and name != besides:
        return name
    living = (g for g, s in states.items() if name and s.spec.name == name and not s.ended)
    return next((goal for goal in living if goal != besides), "")


def cycle(
    new: State, states: Mapping[str, State], gone: Mapping[str, str] = NONE_GONE
) -> list[str]:
    """Return the goals, by name or id, through which a new goal would wait for itself; [] where it would not."""
    known = {**states, new.goal_id: new}
    for one in dependencies(new, known, gone):
        if one.goal == new.goal_id:
            return [called(new)] * 2
        if one.goal in known and (way := _circle(one.goal, new.goal_id, known, gone)):
            return [called(known[goal]) for goal in way]
    return []


def called(state: State) -> str:
    """Return what people call a goal: its name, or else its id."""
    return state.spec.name or state.goal_id


def due(
    states: Mapping[str, State],
    running: Collection[str],
    now: float,
    max_workers: int,
    waited: Collection[str] = (),
    gone: Mapping[str, str] = NONE_GONE,
) -> list[str]:
    """Return the goals to start, best first; `now` in seconds since 1970, `waited` have waited long enough.

    Larger priority first, then the earlier accepted. Two goals never work in the same or a nested
    workspace at once: the later one waits its turn, also behind one that itself waits for a workspace.
    """
    free = max_workers - len(running)
    taken = [states[goal].spec.workspace for goal in running]
    chosen: list[str] = []
    for state in sorted(states.values(), key=_rank):
        if len(chosen) >= free:
            break
        if state.goal_id in running or not ready(state, states, now, waited, gone):
            continue
        workspace = state.spec.workspace
        if not any(overlap(workspace, other) for other in taken):
            chosen.append(state.goal_id)
        taken.append(workspace)
    return chosen


def waits_for(
    state: State,
    states: Mapping[str, State],
    running: Collection[str],
    now: float,
    gone: Mapping[str, str] = NONE_GONE,
) -> str:
    """Return what a queued goal waits for, "" where the goal is not queued."""
    if state.goal.status != GoalStatus.QUEUED:
        return ""
    if told := _awaits(state, states, gone):
        return told
    not_before = state.spec.not_before
    if not_before is not None and now < not_before:
        return f"waits until {iso(not_before)}"
    for goal in running:
        if goal != state.goal_id and overlap(state.spec.workspace, states[goal].spec.workspace):
            return f"waits for the workspace, where {goal} works"
    return FOR_A_WORKER


def ready(
    state: State,
    states: Mapping[str, State],
    now: float,
    waited: Collection[str] = (),
    gone: Mapping[str, str] = NONE_GONE,
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
            awaited = dependencies(state, states, gone)
            return not early and all(one.status == GoalStatus.COMPLETED for one in awaited)
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


def lost_dependency(
    state: State, states: Mapping[str, State], gone: Mapping[str, str] = NONE_GONE
) -> Dependency | None:
    """Return a dependency that ended without being completed, None where there is none."""
    if state.goal.status != GoalStatus.QUEUED:
        return None
    awaited = dependencies(state, states, gone)
    return next((one for one in awaited if one.status in ENDED_BADLY), None)


def overlap(a: str, b: str) -> bool:
    """Tell whether two workspaces are the same, or one lies in the other."""
    one, other = PurePosixPath(a), PurePosixPath(b)
    return one == other or one in other.parents or other in one.parents


def awaited(states: Mapping[str, State], gone: Mapping[str, str] = NONE_GONE) -> dict[str, str]:
    """Return for each queued goal with a dependency that is not completed what it waits for."""
    return {
        goal: told
        for goal, state in states.items()
        if state.spec.depends_on and (told := _awaits(state, states, gone))
    }


def _awaits(state: State, states: Mapping[str, State], gone: Mapping[str, str]) -> str:
    if state.goal.status != GoalStatus.QUEUED:
        return ""
    for one in dependencies(state, states, gone):
        if one.status != GoalStatus.COMPLETED:
            return f"waits for {_told(one, state, states, gone)}"
    return ""


def _told(
    one: Dependency, state: State, states: Mapping[str, State], gone: Mapping[str, str]
) -> str:
    """Return what a dependency is that is not completed, and what to do where it never will be."""
    again = f"`clew cancel {state.goal_id}` and submit its file again"
    if len(one.goals) > 1:
        shown = ", ".join(one.goals[:SHOWN_MAX]) + (", …" if len(one.goals) > SHOWN_MAX else "")
        return f"{one.name}, which matches {len(one.goals)} goals ({shown}): {again} with the id of one"
    if not one.goals:
        others = {name for g, s in states.items() if s is not state for name in (g, s.spec.name)}
        candidates = (name for name in {*others, *gone} if len(name) > len(one.name) // 2)
        near = closest(one.name, candidates)
        return f"{one.name}, which is not known yet" + (f"; did you mean {near}?" if near else "")
    if one.goal == state.goal_id:
        return f"{one.name}, which is this goal itself: {again} without it"
    if one.goal not in states:
        how = one.status or "ended and was removed; whether it was completed is not on record"
        return f"{one.goal}, which {how}: {again} without it"
    if circle := _circle(one.goal, state.goal_id, states, gone):
        return f"{one.goal}, which waits for this goal ({' → '.join(circle)}): cancel one of them"
    return f"{one.goal}, which is {one.status}"


def _circle(
    start: str, end: str, states: Mapping[str, State], gone: Mapping[str, str]
) -> list[str]:
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
        state = states[goal]
        if state.ended or (state.started_at and state.goal.status != GoalStatus.QUEUED):
            continue  # it waits for none of them any more
        for one in dependencies(state, states, gone):
            if one.goal in states and one.goal not in came_from:
                came_from[one.goal] = goal
                left.append(one.goal)
    return []


def _rank(state: State) -> tuple[int, int]:
    return -state.spec.priority, state.accepted_seq
