"""Which goals get a worker now."""

import pytest

from clew_daemon.schedule import due, lost_dependency, next_moment, overlap, ready, waits_for
from clew_shared import events as ev
from clew_shared.fold import fold
from clew_shared.model import GoalStatus


def goals(*specs):
    """Make queued goals a, b, c, … in the order of acceptance, each in a workspace of its own."""
    states = {}
    for n, given in enumerate(specs):
        name = "abcdefgh"[n]
        spec = {"description": name, "workspace": f"/w/{name}", **given}
        states[name] = fold([(n + 1, ev.GoalAccepted(goal_id=name, spec=ev.Spec(**spec)))])
    return states


def with_status(state, status, **more):
    state.goal.status = status
    for name, value in more.items():
        setattr(state, name, value)
    return state


def test_the_earlier_accepted_first():
    assert due(goals({}, {}, {}), [], 0.0, 4) == ["a", "b", "c"]


def test_the_larger_priority_before():
    assert due(goals({}, {"priority": 2}, {"priority": -1}), [], 0.0, 4) == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("running", "expected"), [([], 2), (["a"], 1), (["a", "b"], 0), (["a", "b", "c"], 0)]
)
def test_never_more_than_max_workers(running, expected):
    assert len(due(goals({}, {}, {}, {}), running, 0.0, 2)) == expected


def test_what_runs_is_not_started_again():
    assert due(goals({}, {}), ["a"], 0.0, 4) == ["b"]


@pytest.mark.parametrize(
    ("one", "two", "shared"),
    [("/w", "/w", True), ("/w", "/w/x", True), ("/w/x/y", "/w/x", True), ("/w/x", "/w/xy", False),
     ("/w/a", "/w/b", False)],
)  # fmt: skip
def test_a_workspace_overlaps_itself_and_what_is_nested(one, two, shared):
    assert overlap(one, two) is overlap(two, one) is shared


def test_the_later_of_two_in_one_workspace_waits():
    states = goals({"workspace": "/v"}, {"workspace": "/v/x"}, {})
    assert due(states, [], 0.0, 4) == ["a", "c"]
    assert due(states, ["a"], 0.0, 4) == ["c"]
    states["a"].goal.status = GoalStatus.COMPLETED
    assert due(states, [], 0.0, 4) == ["b", "c"]


def test_nobody_overtakes_one_that_waits_for_its_workspace():
    states = goals({"workspace": "/w/x"}, {"workspace": "/w"}, {"workspace": "/w/y"})
    assert due(states, ["a"], 0.0, 4) == []
    assert due(states, [], 0.0, 4) == ["a"]


def test_not_before_its_time():
    states = goals({"not_before": 10.0})
    assert due(states, [], 9.9, 4) == []
    assert due(states, [], 10.0, 4) == ["a"]


def test_not_before_what_it_depends_on_is_completed():
    states = goals({}, {"depends_on": ("a",)}, {"depends_on": ("nobody",)})
    assert due(states, ["a"], 0.0, 4) == []
    states["a"].goal.status = GoalStatus.COMPLETED
    assert due(states, [], 0.0, 4) == ["b"]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_dependency_that_ended_badly_is_named(status):
    states = goals({}, {"depends_on": ("a",)})
    assert lost_dependency(states["b"], states) == ""
    states["a"].goal.status = GoalStatus(status)
    assert lost_dependency(states["b"], states) == "a"


@pytest.mark.parametrize("status", list(GoalStatus))
def test_every_status_is_answered(status):
    states = goals({})
    with_status(states["a"], status, wait_until=5.0)
    expected = status in (GoalStatus.QUEUED, GoalStatus.IN_PROGRESS, GoalStatus.WAITING)
    assert ready(states["a"], states, 5.0) is expected


def test_a_waiting_goal_goes_on_at_its_time_and_a_paused_one_does_not():
    states = goals({}, {})
    with_status(states["a"], GoalStatus.WAITING, wait_until=7.0)
    with_status(states["b"], GoalStatus.WAITING, wait_until=None, paused=True)
    assert due(states, [], 6.0, 4) == []
    assert due(states, [], 7.0, 4) == ["a"]


def test_the_next_moment_is_the_earliest_to_come():
    states = goals({"not_before": 30.0}, {"not_before": 3.0}, {})
    with_status(states["c"], GoalStatus.WAITING, wait_until=20.0)
    assert next_moment(states.values(), 5.0) == 20.0
    assert next_moment(states.values(), 40.0) is None


def test_a_queued_goal_says_what_it_waits_for():
    states = goals(
        {},
        {"depends_on": ("a",)},
        {"depends_on": ("nobody",)},
        {"not_before": 60.0},
        {"workspace": "/w/a/inner"},
        {},
    )
    said = [waits_for(states[goal], states, ["a"], 0.0) for goal in "bcdef"]
    assert said == [
        "waits for a, which is queued",
        "waits for nobody, which is not known yet",
        "waits until 1970-01-01T00:01:00.000000+00:00",
        "waits for the workspace, where a works",
        "waits for a worker",
    ]


def test_a_goal_that_is_not_queued_waits_for_nothing_here():
    states = goals({})
    with_status(states["a"], GoalStatus.COMPLETED)
    assert waits_for(states["a"], states, [], 0.0) == ""
