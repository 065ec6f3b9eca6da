"""What a state lets go of, so that a goal that works on and on costs the same at its last step as at its first.

Part of the fold: which step it happens at depends on events alone. What is forgotten was used longest ago, and is
far beyond what a goal does within the default `max_actions`; blocks and deaths are never forgotten.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew_shared.record.model import Subtask
    from clew_shared.record.state import Scope, State

EVERY = 500
"""Deeds between two looks at what has become too much: a look costs about as much as one of them."""

KEPT = 4_000
"""Of what is counted in a scope (signatures, worlds, outcomes, what came of an action in a world), each; and of
the subtasks' last actions, all together."""

OUTCOMES_KEPT = 50
"""Outcomes of one action in one world at least, where there are too many of all together: a poll whose output
moves has another one each time."""


def count(counts: dict[str, int], key: str) -> None:
    """Count one more, and put it last: the order is that of use."""
    counts[key] = counts.pop(key, 0) + 1


def let_go(state: State) -> None:
    """Forget what was used longest ago, where there is too much; called at each deed."""
    if (state.actions_total + state.blocked_total) % EVERY:
        return
    _of_scope(state.scope)
    _keep_last(state.changes)
    for outcomes in state.changes.values():
        for outcome in [o for o, c in outcomes.items() if c.novelty != state.novelty]:
            del outcomes[outcome]  # it says nothing since another action has changed something
    _keep_shares(list(state.changes.values()), least=1)
    _actions([s for task in state.goal.tasks for s in task.subtasks if s.actions])


def _of_scope(scope: Scope) -> None:
    for kept in (
        scope.worlds,
        scope.outcomes,
        scope.loop_counts,
        scope.writers,
        scope.tool_errors,
        scope.action_errors,
        scope.misuses,
    ):
        _keep_last(kept)
    _tallies(scope)


def _tallies(scope: Scope) -> None:
    tallies = [tally for worlds in scope.tallies.values() for tally in worlds.values()]
    _keep_shares([tally.counts for tally in tallies], least=OUTCOMES_KEPT)
    seqs = sorted(tally.seq for tally in tallies)
    if len(seqs) <= KEPT:
        return
    oldest = seqs[-KEPT]
    kept = {
        signature: {world: tally for world, tally in worlds.items() if tally.seq >= oldest}
        for signature, worlds in scope.tallies.items()
    }
    scope.tallies = {signature: worlds for signature, worlds in kept.items() if worlds}


def _actions(subtasks: list[Subtask]) -> None:
    """Leave subtasks that were worked on longest ago only the number of their actions."""
    held = sum(len(subtask.actions) for subtask in subtasks)
    for subtask in sorted(subtasks, key=lambda subtask: subtask.actions[-1].seq):
        if held <= KEPT:
            return
        held -= len(subtask.actions)
        subtask.actions.clear()


def _keep_shares(kept: list[dict[str, Any]], least: int) -> None:
    """Leave each its share where all together have too much."""
    if sum(map(len, kept)) > KEPT:
        for one in kept:
            _keep_last(one, max(least, KEPT // len(kept)))


def _keep_last(kept: dict[str, Any], most: int = KEPT) -> None:
    if len(kept) > most:
        for key in list(islice(kept, len(kept) - most)):
            del kept[key]
