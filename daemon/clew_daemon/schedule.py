"""Which goals get a worker now: a pure function of the goals' states, who runs, and the time.

Knows priorities, `not_before`, dependencies and workspaces; nothing about processes.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from clew_shared.model import GoalStatus
from clew_shared.moment import iso

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from clew_shared.state import State

ENDED_BADLY = (GoalStatus.FAILED, GoalStatus.CANCELLED)


def due(
    states: Mapping[str, State],
    running: Collection[str],
    now: float,
    max_workers: int,
    waited: Collection[str] = (),
) -> list[str]:
    """Name the goals to start, best first; `now` in seconds since 1970, `waited` have waited long enough.

    Larger priority first, then the earlier accepted. Two goals never work in the same or a nested
    workspace at once: the later one waits its turn, also behind one that itself waits for a workspace.
    """
    free = max_workers - len(running)
    taken = [states[goal].spec.workspace for goal in running]
    chosen: list[str] = []
    for state in sorted(states.values(), key=_rank):
        if len(chosen) >= free:
            break
        if state.goal_id in running or not ready(state, states, now, waited):
            continue
        workspace = state.spec.workspace
        if not any(overlap(workspace, other) for other in taken):
            chosen.append(state.goal_id)
        taken.append(workspace)
    return chosen


def waits_for(
    state: State, states: Mapping[str, State], running: Collection[str], now: float
) -> str:
    """Say what a queued goal waits for, "" where the goal is not queued."""
    if state.goal.status != GoalStatus.QUEUED:
        return ""
    for goal in state.spec.depends_on:
        if not _completed(goal, states):
            found = (
                f"which is {states[goal].goal.status}"
                if goal in states
                else "which is not known yet"
            )
            return f"waits for {goal}, {found}"
    not_before = state.spec.not_before
    if not_before is not None and now < not_before:
        return f"waits until {iso(not_before)}"
    for goal in running:
        if goal != state.goal_id and overlap(state.spec.workspace, states[goal].spec.workspace):
            return f"waits for the workspace, where {goal} works"
    return "waits for a worker"


def ready(
    state: State, states: Mapping[str, State], now: float, waited: Collection[str] = ()
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
            return not early and all(_completed(d, states) for d in state.spec.depends_on)
        case _:
            return False


def next_moment(states: Iterable[State], now: float) -> float | None:
    """Give the earliest moment after `now` at which time alone makes a goal ready, None for never."""
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


def lost_dependency(state: State, states: Mapping[str, State]) -> str:
    """Name a dependency that ended without being completed, "" where there is none."""
    if state.goal.status != GoalStatus.QUEUED:
        return ""
    for goal in state.spec.depends_on:
        if goal in states and states[goal].goal.status in ENDED_BADLY:
            return goal
    return ""


def overlap(a: str, b: str) -> bool:
    """Tell whether two workspaces are the same, or one lies in the other."""
    one, other = PurePosixPath(a), PurePosixPath(b)
    return one == other or one in other.parents or other in one.parents


def _completed(goal: str, states: Mapping[str, State]) -> bool:
    return goal in states and states[goal].goal.status == GoalStatus.COMPLETED


def _rank(state: State) -> tuple[int, int]:
    return -state.spec.priority, state.accepted_seq
