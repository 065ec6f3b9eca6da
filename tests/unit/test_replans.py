"""A replan loses no pending work: the plan continues it, covers it by its number, or leaves it to be done after it."""

import pytest

from clew_shared.core.answers import WrongState
from clew_shared.record import events as ev
from clew_shared.record.codec import decode, encode
from clew_shared.record.fold import fold
from clew_shared.record.snapshot import dump
from clew_shared.record.spec import PlannedSubtask, PlannedTask, Spec
from clew_shared.record.state import State


def block(agent):
    """Let the current subtask fail until it is blocked; return the level escalated to."""
    for _ in range(agent.core.loops.failure_limit):
        level = agent.complete(success=False, failure="no way")
    return level


def tree(agent):
    return [[s.description for s in t.subtasks] for t in agent.state.goal.tasks]


@pytest.fixture
def blocked(played):
    """An agent whose second of four subtasks is blocked, with another task after it."""
    agent = played(["done", "stuck", "third", "fourth"], ["later"])
    agent.complete()
    agent.advance()
    block(agent)
    return agent


def test_what_the_plan_does_not_name_is_still_to_do_after_it(blocked):
    blocked.replan("task", ["another way"])
    assert tree(blocked) == [["done", "another way", "third", "fourth"], ["later"]]
    assert blocked.state.open_subtasks() == ["another way", "third", "fourth", "later"]
    assert blocked.state.set_aside == ["stuck (blocked: no way)"]
    assert blocked.state.covered == []


def test_what_the_plan_covers_by_number_is_replaced_and_noted_as_not_tried(blocked):
    blocked.replan("task", ["another way"], covers=[2])
    assert tree(blocked) == [["done", "another way", "third"], ["later"]]
    assert blocked.state.set_aside == ["stuck (blocked: no way)"]
    assert blocked.state.covered == ["fourth"]


def test_what_the_plan_names_again_is_continued_in_its_place_and_not_done_twice(blocked):
    blocked.replan("task", [" Fourth ", "another way"])
    assert tree(blocked) == [["done", "fourth", "another way", "third"], ["later"]]


@pytest.mark.parametrize("number", [0, 3, -1])
def test_a_number_that_no_pending_subtask_has_is_an_error_that_counts_them(blocked, number):
    with pytest.raises(WrongState, match=rf"number {number}, but 2 subtasks are pending"):
        blocked.replan("task", ["x"], covers=[number])
    assert tree(blocked)[0] == ["done", "stuck", "third", "fourth"]


def test_work_that_is_pending_through_every_replan_is_reached_in_the_end(played):
    agent = played(["stuck", "tests", "docs"])
    for n in range(2):
        block(agent)
        agent.replan("task", [f"way {n}", f"more of way {n}"], covers=[1] if n else [])
    done = []
    while agent.state.subtask.status == "in_progress":
        done.append(agent.state.subtask.description)
        agent.complete()
        agent.advance()
    assert done == ["way 1", "more of way 1", "tests", "docs"]


def test_a_replan_recorded_by_an_earlier_version_folds_as_it_did():
    task = PlannedTask(
        description="t",
        subtasks=tuple(PlannedSubtask(description=d) for d in ("stuck", "third")),
    )
    body = b'{"kind":"planned","tasks":[{"description":"t","subtasks":[{"description":"x"}]}],"replan":"task"}'
    events = [
        ev.GoalAccepted(goal_id="g", spec=Spec(description="g"), tasks=(task,)),
        ev.GoalStarted(),
        ev.SubtaskStarted(task_idx=0, subtask_idx=0),
        ev.Escalated(to="task", reason="no way"),
        decode(body),
    ]
    assert encode(events[-1]) == body
    state = fold(enumerate(events, 1), State())
    assert [s.description for s in state.goal.tasks[0].subtasks] == ["x"]
    assert state.set_aside == ["stuck (blocked: no way)", "third (pending)"]
    assert dump(state)
