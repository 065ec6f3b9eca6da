"""A replan loses no pending work: the plan continues it, covers it by its number, or leaves it to be done after it."""

import pytest

from clew_shared.core.answers import WrongState
from clew_shared.record import events as ev
from clew_shared.record.codec import decode, encode
from clew_shared.record.fold import fold
from clew_shared.record.snapshot import dump
from clew_shared.record.spec import PlannedStep, PlannedSubtask, PlannedTask, Spec
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


def test_a_subtask_that_the_plan_both_names_and_covers_is_continued(blocked):
    blocked.replan("task", ["another way", "third"], covers="all")
    assert tree(blocked) == [["done", "another way", "third"], ["later"]]
    assert blocked.state.covered == ["fourth"]


def test_two_pending_subtasks_of_one_description_are_both_still_there(played):
    agent = played(["stuck", "again", "again"])
    block(agent)
    agent.replan("task", ["again"])
    assert tree(agent) == [["again", "again"]]


def test_a_replan_of_the_goal_keeps_what_is_pending_in_all_tasks(played):
    agent = played(["done", "stuck", "third"], ["later", "last"], replan_limit=1)
    agent.complete()
    agent.advance()
    block(agent)
    agent.replan("task", ["still no way"])
    assert block(agent) == "goal"
    agent.replan("goal", ["x"], ["last"], covers=[1])
    assert tree(agent) == [["done"], ["x"], ["last"], ["later"]]
    assert agent.state.covered == ["third"]
    assert [str(t.status) for t in agent.state.goal.tasks][:2] == ["completed", "in_progress"]
    assert agent.state.place == (1, 0)


@pytest.mark.parametrize("number", [0, 3, -1])
def test_a_number_that_no_pending_subtask_has_is_an_error_that_counts_them(blocked, number):
    with pytest.raises(WrongState, match=rf"number {number}, but 2 subtasks are pending"):
        blocked.replan("task", ["x"], covers=[number])
    assert tree(blocked)[0] == ["done", "stuck", "third", "fourth"]


def test_a_first_plan_covers_nothing(played):
    agent = played()
    with pytest.raises(WrongState, match="`covers`"):
        agent.replan(None, ["x"], covers=[1])


def test_what_was_never_tried_inherits_nothing_of_what_was_blocked(played):
    agent = played(["stuck", "other"])
    for _ in range(3):
        agent.fail("make", "no rule")
    block(agent)
    agent.replan("task", ["another way"])
    assert agent.state.blocked_actions
    agent.complete()
    agent.advance()
    assert agent.state.subtask.description == "other"
    assert agent.state.blocked_actions == []


def test_a_pending_subtask_that_fails_later_is_no_failure_of_the_replan_before_it(played):
    agent = played(["stuck", "other"])
    block(agent)
    agent.replan("task", ["another way"])
    agent.complete()
    agent.advance()
    assert block(agent) == "task"
    assert agent.state.task.failed_replans == 0


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


def test_steps_of_a_goal_file_stay_with_a_pending_subtask(played):
    agent = played()
    steps = (PlannedStep(tool="run_cmd", args={"cmd": "make"}),)
    subtasks = (PlannedSubtask(description="stuck"), PlannedSubtask(description="run", steps=steps))
    task = PlannedTask(description="t", subtasks=subtasks)
    accepted = ev.GoalAccepted(goal_id="g", spec=Spec(description="g"), tasks=(task,))
    agent.core.state = fold([(1, accepted), (2, ev.GoalStarted())])
    agent.core.start(0.0)
    block(agent)
    agent.replan("task", ["x"])
    assert agent.state.subtask_at(0, 1).steps == [{"tool": "run_cmd", "args": {"cmd": "make"}}]


def test_a_replan_is_the_same_when_it_is_read_back(blocked):
    blocked.replan("task", ["fourth", "x"], covers=[1])
    rows = blocked.take()
    assert fold(rows) == blocked.state
    blocked.restart()
    assert fold(rows) == blocked.state


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
