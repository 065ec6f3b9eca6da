"""LRU bounds on what a state remembers, so that a long goal costs the same at its last step as at its first.

Part of the fold: the step at which it evicts depends on events alone. What is evicted is far beyond what a goal does
within the default `max_actions` (docs/loops.md, How far back); blocks and deaths of the worker are never evicted.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew_shared.record.model import Subtask
    from clew_shared.record.state import Scope, State

EVICT_EVERY = 500
"""Judged actions between two evictions of tallies and actions: one costs about as much as one action."""

ENTRIES_MAX = 4_000
"""Entries of each table of a scope (signatures, worlds, tallies), and of all subtasks' last actions."""

OUTCOMES_MIN = 50
"""Outcomes of one action in one world that always stay: a poll whose output moves has a different one each time."""


def count(counts: dict[str, int], key: str) -> None:
    """Count one more and move the key to the end: the order is that of use, and the oldest of too many goes."""
    counts[key] = counts.pop(key, 0) + 1
    if len(counts) > ENTRIES_MAX:
        del counts[next(iter(counts))]


def evict(state: State) -> None:
    """Drop the least recently used tallies and actions where there are too many; called at each judged action."""
    if (state.actions_total + state.blocked_total) % EVICT_EVERY == 0:
        _evict_tallies(state.scope)
        _evict_actions([s for task in state.goal.tasks for s in task.subtasks if s.actions])


def _evict_tallies(scope: Scope) -> None:
    tallies = [tally for worlds in scope.tallies.values() for tally in worlds.values()]
    share = max(OUTCOMES_MIN, ENTRIES_MAX // max(1, len(tallies)))
    if sum(len(tally.counts) for tally in tallies) > ENTRIES_MAX:
        for tally in tallies:
            late = islice(tally.counts.items(), max(0, len(tally.counts) - share), None)
            tally.counts = dict(late)
    if len(tallies) > ENTRIES_MAX:
        oldest = sorted(tally.seq for tally in tallies)[-ENTRIES_MAX]
        for name, worlds in list(scope.tallies.items()):
            kept = {world: tally for world, tally in worlds.items() if tally.seq >= oldest}
            scope.tallies[name] = kept
            if not kept:
                del scope.tallies[name]


def _evict_actions(subtasks: list[Subtask]) -> None:
    """Leave the subtasks that were worked on longest ago only the number of their actions."""
    held = sum(len(subtask.actions) for subtask in subtasks)
    for subtask in sorted(subtasks, key=lambda subtask: subtask.actions[-1].seq):
        if held <= ENTRIES_MAX:
            return
        held -= len(subtask.actions)
        subtask.actions.clear()
