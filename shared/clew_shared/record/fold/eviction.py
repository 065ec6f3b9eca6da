"""LRU bounds on what a state remembers, so that a long goal costs the same at its last step as at its first.

Part of the fold: the step at which it evicts depends on events alone. What is evicted is far beyond what a goal does
within the default `max_actions` (docs/loops.md, How far back); blocks and deaths of the worker are never evicted.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew_shared.record.model import Subtask
    from clew_shared.record.state import Scope, State

EVICT_EVERY = 500
"""Judged actions between two evictions: one eviction costs about as much as one action."""

ENTRIES_MAX = 4_000
"""Entries of each table of a scope (signatures, worlds, outcomes, tallies), and of all subtasks' last actions."""

OUTCOMES_MIN = 50
"""Outcomes of one action in one world that always stay: a poll whose output moves has a different one each time."""


def count(counts: dict[str, int], key: str) -> None:
    """Count one more and move the key to the end: the order is that of use."""
    counts[key] = counts.pop(key, 0) + 1


def evict(state: State) -> None:
    """Drop the least recently used entries where there are too many; called at each judged action."""
    if (state.actions_total + state.blocked_total) % EVICT_EVERY:
        return
    _evict_from_scope(state.scope)
    _truncate(state.changes)
    for outcomes in state.changes.values():
        for outcome in [o for o, c in outcomes.items() if c.novelty != state.novelty]:
            del outcomes[outcome]  # outdated since another action has changed something
    _truncate_shares(list(state.changes.values()), least=1)
    _evict_actions([s for task in state.goal.tasks for s in task.subtasks if s.actions])


def _evict_from_scope(scope: Scope) -> None:
    for table in (scope.worlds, scope.loop_counts, scope.writers):
        _truncate(table)
    _evict_tallies(scope)


def _evict_tallies(scope: Scope) -> None:
    tallies = [tally for worlds in scope.tallies.values() for tally in worlds.values()]
    _truncate_shares([tally.counts for tally in tallies], least=OUTCOMES_MIN)
    seqs = sorted(tally.seq for tally in tallies)
    if len(seqs) <= ENTRIES_MAX:
        return
    oldest = seqs[-ENTRIES_MAX]
    recent = {
        signature: {world: tally for world, tally in worlds.items() if tally.seq >= oldest}
        for signature, worlds in scope.tallies.items()
    }
    scope.tallies = {signature: worlds for signature, worlds in recent.items() if worlds}


def _evict_actions(subtasks: list[Subtask]) -> None:
    """Leave the subtasks that were worked on longest ago only the number of their actions."""
    held = sum(len(subtask.actions) for subtask in subtasks)
    for subtask in sorted(subtasks, key=lambda subtask: subtask.actions[-1].seq):
        if held <= ENTRIES_MAX:
            return
        held -= len(subtask.actions)
        subtask.actions.clear()


def _truncate_shares(tables: list[dict[str, Any]], least: int) -> None:
    """Truncate each table to its share where all together have too many entries."""
    if sum(map(len, tables)) > ENTRIES_MAX:
        for table in tables:
            _truncate(table, max(least, ENTRIES_MAX // len(tables)))


def _truncate(table: dict[str, Any], most: int = ENTRIES_MAX) -> None:
    if len(table) > most:
        for key in list(islice(table, len(table) - most)):
            del table[key]
