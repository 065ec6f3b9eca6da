"""The fold of actions: what is in flight, what came of it, and what the scope learns from it."""

from __future__ import annotations

from datetime import datetime

from clew_shared.record import events as ev
from clew_shared.record.fold.loops import drop_broken_streaks, learn, refused
from clew_shared.record.model import ACTIONS_KEPT, Action, Result
from clew_shared.record.moment import iso
from clew_shared.record.scope import EVERYWHERE, count
from clew_shared.record.signature import digest
from clew_shared.record.state import RERUNS_KEPT, RUNS_KEPT, InFlight, Rerun, State, taken
from clew_shared.record.worlds import (
    UNKNOWN,
    comparison_world,
    is_measured,
    may_have_changed,
    novelty_after,
    world_after,
    world_moved,
)
from clew_shared.text.words import action_text

DAEMON_DIED = "daemon_died"  # why an action ended at an unknown time


def action_allowed(state: State, e: ev.ActionAllowed, seq: int) -> None:
    if e.run > 1:
        _note_rerun(state, e, seq)
    state.in_flight[seq] = InFlight(seq, e.signature, action_of(e, seq, state.place))
    state.plan.proposed = True
    state.actions_total += 1
    state.loops.attention.thoughts_without_tools = 0
    if e.signature not in state.loops.scope.loop_counts:
        state.loops.attention.same_theme = 0  # what leads to something not tried before is work
    count(state.loops.scope.loop_counts, e.signature)


def action_blocked(state: State, e: ev.ActionBlocked, seq: int) -> None:
    state.plan.proposed = True
    state.loops.blocked_total += 1
    state.loops.attention.thoughts_without_tools = 0
    if e.makes_block:
        count(state.loops.scope.loop_counts, e.signature)
        where = EVERYWHERE if e.everywhere else state.loops.world
        state.loops.scope.blocks.setdefault(e.signature, {})[where] = e.makes_block
    if e.counts:
        state.loops.blocked_proposals += 1
    refused(state, e, seq)
    if e.done:
        state.in_flight[seq] = InFlight(seq, e.signature, action_of(e, seq, state.place))
        return
    _store(state, action_of(e, seq, state.place, Result.BLOCKED))


def action_interrupted(state: State, e: ev.ActionInterrupted, _seq: int) -> None:
    if (flight := state.in_flight.pop(e.of, None)) is None:
        return
    flight.action.result, flight.action.duration_s = Result.INTERRUPTED, ran_s(flight.action, e)
    _store(state, flight.action)
    if e.counts:
        count(state.loops.scope.crashes, flight.signature)
        state.loops.scope.died = {flight.signature: e.detail}


def action_finished(state: State, e: ev.ActionFinished, _seq: int) -> None:
    if (flight := state.in_flight.pop(e.of, None)) is None:
        return
    action = flight.action
    action.result, action.duration_s, action.exit_code = e.result, e.duration_s, e.exit_code
    before = comparison_world(state, e.world)
    action.changed = world_moved(state, e.world) if e.changed is None else e.changed
    action.paths = e.touched.paths
    state.loops.world = world_after(state, flight.signature, e)
    _store(state, action)
    if is_measured(e.world):
        state.loops.measured = e.world
    elif may_have_changed(e):
        state.loops.measured = ""
        state.loops.novelty = novelty_after(state, flight.signature, e)
        count(state.loops.changes, flight.signature)
    learn(state, flight, e, before)
    drop_broken_streaks(state.loops.attention)


def world_seen(state: State, e: ev.WorldSeen, seq: int) -> None:
    world, measured = e.world, e.world
    if world == UNKNOWN:
        world, measured = UNKNOWN + digest(f"{state.loops.world}\n{seq}"), ""
        state.loops.novelty += 1
    replaces = e.instead or state.loops.world.startswith(UNKNOWN)
    if replaces or comparison_world(state, world) != world:
        state.loops.scope.worlds.setdefault(world, 1)
        state.loops.world = world
    state.loops.measured = measured


def action_of(
    e: ev.ActionAllowed | ev.ActionBlocked, seq: int, place: tuple[int, int], result: str = ""
) -> Action:
    """Return the action that begins with event number `seq`, in the subtask at `place`."""
    action = taken(Action, e, name=e.tool, result=result, seq=seq, timestamp=iso(e.at))
    action.task_idx, action.subtask_idx = place
    return action


def ran_s(action: Action, e: ev.ActionInterrupted) -> float:
    """Return how long an action ran before it was cut off; 0 where that is not known, since nobody was there."""
    if e.reason == DAEMON_DIED:
        return 0.0
    return max(0.0, round(e.at - datetime.fromisoformat(action.timestamp).timestamp(), 3))


def _note_rerun(state: State, e: ev.ActionAllowed, seq: int) -> None:
    """Note that an action runs once more, with what came of the run before."""
    ran = state.subtask.actions if state.subtask else []
    same = [a for a in ran if (a.name, a.args) == (e.tool, e.args) and a.result != Result.BLOCKED]
    before = same[-1] if same else None
    known = next((r for r in state.attempts.reruns if before and r.seqs[-1] == before.seq), None)
    if known is None:
        first = [before.seq if before else 0]
        known = Rerun(*state.place, action_text(e.tool, e.args), 1, first, [])
        state.attempts.reruns.append(known)
        del state.attempts.reruns[:-RERUNS_KEPT]
    known.times = e.run
    known.seqs.append(seq)
    known.results.append(str(before.result) if before else "")
    del known.seqs[:-RUNS_KEPT], known.results[: -RUNS_KEPT + 1]


def _store(state: State, action: Action) -> None:
    state.proofs.last_action = max(state.proofs.last_action, action.seq)
    if subtask := state.subtask_at(action.task_idx, action.subtask_idx):
        subtask.actions.append(action)
        subtask.actions_total += 1
        del subtask.actions[:-ACTIONS_KEPT]
