"""A replan loses no pending work: the plan continues it, covers it by its number, or leaves it to be done after it."""

import pytest

from clew_shared.core.answers import WrongState


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
