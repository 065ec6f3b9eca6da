"""A state stays small however long its goal works, and forgets nothing that a goal of ordinary length needs."""

import pytest

from clew_shared.config.tables import Settings
from clew_shared.core.answers import ActionReport
from clew_shared.core.budgets import Limits
from clew_shared.core.core import Core
from clew_shared.record import events as ev
from clew_shared.record import scope as scopes
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec
from clew_shared.record.state import State

AT = 1_790_000_000.0
ENTRIES_MAX = 400


def begun(subtasks=1):
    seqs = iter(range(1, 10**9))
    core = Core(
        State(goal_id="a"), Settings().loops, lambda: next(seqs), limits=Limits(actions=10**9)
    )
    parts = tuple(PlannedSubtask(description=f"Part {n}") for n in range(subtasks))
    tasks = (PlannedTask(description="All", subtasks=parts),)
    core.emit(ev.GoalAccepted(at=AT, goal_id="a", spec=Spec(description="Do"), tasks=tasks))
    core.emit(ev.GoalStarted(at=AT))
    core.start(AT)
    return core


def edit(core, n):
    done = ActionReport("success", f"line {n}", changed=True, world=f"w{n}")
    return core.record("edit_file", {"path": "a", "line": n}, done, AT)


@pytest.fixture
def long(monkeypatch):
    """A goal that has edited far more often than is remembered."""
    monkeypatch.setattr(scopes, "ENTRIES_MAX", ENTRIES_MAX)
    core = begun()
    for n in range(2 * ENTRIES_MAX):
        edit(core, n)
    return core


def test_the_state_of_a_goal_that_works_on_and_on_does_not_grow(long):
    scope = long.state.loops.scope
    tallies = sum(map(len, scope.tallies.values()))
    counted = (scope.worlds, scope.loop_counts, scope.writers, long.state.loops.changes)
    assert max(tallies, *map(len, counted)) < ENTRIES_MAX + 1
    assert long.state.actions_total == 2 * ENTRIES_MAX
