"""A replan loses no pending work: the plan continues it, covers it by its number, or leaves it to be done after it."""

import pytest


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


def test_what_the_plan_names_again_is_continued_in_its_place_and_not_done_twice(blocked):
    blocked.replan("task", [" Fourth ", "another way"])
    assert tree(blocked) == [["done", "fourth", "another way", "third"], ["later"]]
