"""Which goals get a worker now: a pure function of the goals' states, who runs, and the time."""

from collections.abc import Collection, Iterable

from clew_daemon.host.folders import overlap
from clew_daemon.record.dependencies import Dependency, KnownGoals, circle, dependencies
from clew_shared.record.model import GoalStatus
from clew_shared.record.moment import iso
from clew_shared.record.state import State

ENDED_BADLY = (GoalStatus.FAILED, GoalStatus.CANCELLED)
FOR_A_WORKER = "waits for a worker"
SHOWN_MAX = 5  # How many goals are named that one name in `depends_on` may mean


def due(known: KnownGoals, running: Collection[str], now: float, max_workers: int) -> list[str]:
    """Return the goals to start, best first; `now` in seconds since 1970.

    Two goals never work in the same or a nested workspace at once: the later one waits its turn, also behind one that
    itself waits for a workspace.
    """
    free, there = max_workers - len(running), known.states  # one that is held may have been purged
    taken = [there[goal].spec.workspace for goal in running if goal in there]
    chosen: list[str] = []
    for state in known.in_turn:
        if len(chosen) >= free:
            break
        if state.goal_id in running or not ready(state, known, now):
            continue
        workspace = state.spec.workspace
        if not any(overlap(workspace, other) for other in taken):
            chosen.append(state.goal_id)
        taken.append(workspace)
    return chosen


def waits_for(
    state: State, known: KnownGoals, running: Collection[str], now: float
) -> tuple[str, bool]:
    """Return what a queued goal waits for, "" for any other, and whether only a person can bring that about."""
    if state.goal.status != GoalStatus.QUEUED:
        return "", False
    open_ones = [one for one in dependencies(state, known) if one.status != GoalStatus.COMPLETED]
    if open_ones:
        shown = [_shown(one, state, known) for one in open_ones]
        return f"waits for {shown[0][0]}", any(stuck for _, stuck in shown)
    not_before, workspace = state.spec.not_before, state.spec.workspace
    if not_before is not None and now < not_before:
        return f"waits until {iso(not_before)}", False
    for goal in running:
        if goal != state.goal_id and overlap(workspace, known.states[goal].spec.workspace):
            return f"waits for the workspace, where {goal} works", False
    return FOR_A_WORKER, False


def ready(state: State, known: KnownGoals, now: float) -> bool:
    """Return whether a goal could work now if there were room; no wait outlasts a clock that is set back behind it."""
    match state.goal.status:
        case GoalStatus.IN_PROGRESS:
            return True
        case GoalStatus.WAITING:
            until = None if state.paused else state.wait_until
            return until is not None and not state.wait_began <= now < until
        case GoalStatus.QUEUED:
            if state.spec.not_before is not None and now < state.spec.not_before:
                return False
            return all(one.status == GoalStatus.COMPLETED for one in dependencies(state, known))
        case _:
            return False


def next_moment(states: Iterable[State], now: float) -> float | None:
    """Return the earliest moment after `now` at which time alone makes a goal ready, None for never."""
    moments = []
    for s in states:
        if s.goal.status == GoalStatus.QUEUED:
            moments.append(s.spec.not_before)
        elif s.goal.status == GoalStatus.WAITING and not s.paused:
            moments.append(s.wait_until)
    return min((at for at in moments if at is not None and at > now), default=None)


def lost_dependency(state: State, known: KnownGoals) -> Dependency | None:
    """Return a dependency that ended without being completed, None where there is none."""
    lost = (one for one in dependencies(state, known) if one.status in ENDED_BADLY)
    return next(lost, None) if state.goal.status == GoalStatus.QUEUED else None


def _shown(one: Dependency, state: State, known: KnownGoals) -> tuple[str, bool]:
    """Return a dependency that is not completed, and whether it takes a person: no goal, or not one, is meant."""
    again, there = f"`clew edit {state.goal_id}`", known.states.get(one.goal)
    if not one.goals:
        which = "is not known yet"
    elif len(one.goals) > 1:
        shown = ", ".join(one.goals[:SHOWN_MAX]) + (", …" if len(one.goals) > SHOWN_MAX else "")
        which = f"matches {len(one.goals)} goals ({shown}): name one of them ({again})"
    elif one.goal == state.goal_id:
        which = f"is this goal itself: take it out ({again})"
    elif there is None:
        how = one.status or "ended and was removed; whether it was completed is not on record"
        which = f"{how}: take it out ({again})"
    elif way := circle(one.goal, state.goal_id, known):
        which = f"waits for this goal ({' → '.join(way)}): cancel one of them"
    else:
        return f"{one.goal}, which is {'paused' if there.paused else one.status}", False
    by_name = len(one.goals) != 1 or one.goal == state.goal_id
    return f"{one.name if by_name else one.goal}, which {which}", True
