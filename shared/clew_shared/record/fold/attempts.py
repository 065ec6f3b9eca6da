"""The fold of attempts: a fresh start at a subtask, with nothing counted but crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_shared.record.fold.loops import settle
from clew_shared.record.state import (
    EVERYWHERE,
    FRESH_STARTS_KEPT,
    AttemptState,
    Attention,
    FreshStart,
    RefusedFinishes,
    Scope,
)
from clew_shared.record.worlds import UNKNOWN

if TYPE_CHECKING:
    from clew_shared.record import events as ev
    from clew_shared.record.state import State


def ended(state: State, e: ev.AttemptEnded, _seq: int) -> None:
    state.attempt.over = e.reason
    state.attempt.advancing = e.advancing
    state.attempt.tried = e.tried
    settle(state, "attempt_ended")


def started(state: State, e: ev.AttemptStarted, seq: int) -> None:
    settle(state, "attempt_ended")
    state.attempt = AttemptState(
        number=e.attempt,
        seq=seq,
        from_iteration=state.iteration,
        from_actions=state.subtask.actions_total if state.subtask else 0,
        reason=e.reason,
        restored=e.restored,
        kept=e.kept,
        left=e.left,
        tried=state.attempt.tried,
    )
    state.attempts_total += 1
    state.fresh_starts.append(_fresh_start(state, e))
    del state.fresh_starts[:-FRESH_STARTS_KEPT]
    if e.scope == "new":
        state.scope = afresh(state.scope, "" if e.restored else state.world)
    state.attention = Attention(steps=state.attention.steps)
    state.blocked_proposals = state.ignored_interventions = 0
    state.refused = RefusedFinishes()
    state.turn_at = state.place


def _fresh_start(state: State, e: ev.AttemptStarted) -> FreshStart:
    return FreshStart(
        *state.place,
        number=e.attempt,
        at=e.at,
        epoch=state.epoch + 1,
        reason=e.reason,
        rung=e.rung,
        restored=e.restored,
        kept=e.kept,
        left=e.left,
    )


def afresh(old: Scope, world: str) -> Scope:
    """Return a scope with nothing counted, but for actions during which the worker died."""
    return Scope(
        worlds={world: 1} if world else {},
        crashes=old.crashes,
        died=old.died,
        blocks=crash_blocks(old),
    )


def crash_blocks(old: Scope) -> dict[str, dict[str, str]]:
    """Return the blocks of actions during which the worker died."""
    return {s: {EVERYWHERE: "crash"} for s, b in old.blocks.items() if b.get(EVERYWHERE) == "crash"}


def finish_refused(state: State, e: ev.FinishRefused, _seq: int) -> None:
    """Count refused finishes with the same files, or with no action in between.

    An agent with its own tools may have worked between two of them where clew cannot see it.
    """
    state.claims += bool(e.failing)
    before, world = state.refused, state.world
    unseen = e.own_tools and world.startswith(UNKNOWN)
    same_files = before.world == world and not world.startswith(UNKNOWN)
    no_action = before.actions == state.actions_total and (unseen or not e.own_tools)
    same_checks = same_files and bool(e.failing) and before.failing == e.failing
    state.refused = RefusedFinishes(
        world=world,
        actions=state.actions_total,
        failing=e.failing,
        count=before.count + 1 if same_files or no_action else 1,
        same_checks=before.same_checks + 1 if same_checks else 1,
        unseen=unseen,
    )
