"""Which goals get a worker now."""

import pytest

from clew_daemon.host.folders import overlap
from clew_daemon.record.dependencies import KnownGoals, cycle, holder
from clew_daemon.supervision.schedule import due, ready, waits_for
from clew_shared.record import events as ev
from clew_shared.record.fold import fold
from clew_shared.record.model import GoalStatus
from clew_shared.record.spec import Spec


def goals(*specs):
    """Make queued goals a, b, c, … in the order of acceptance, each in a workspace of its own."""
    states = {}
    for n, given in enumerate(specs):
        name = "abcdefgh"[n]
        spec = {"description": name, "workspace": f"/w/{name}", **given}
        states[name] = fold([(n + 1, ev.GoalAccepted(goal_id=name, spec=Spec(**spec)))])
    return states


@pytest.mark.parametrize(
    ("running", "expected"), [([], 2), (["a"], 1), (["a", "b"], 0), (["a", "b", "c"], 0)]
)
def test_never_more_than_max_workers(running, expected):
    assert len(due(KnownGoals(goals({}, {}, {}, {})), running, 0.0, 2)) == expected


@pytest.mark.parametrize(
    ("one", "two", "shared"),
    [("/w", "/w", True), ("/w", "/w/x", True), ("/w/x/y", "/w/x", True), ("/w/x", "/w/xy", False),
     ("/w/a", "/w/b", False)],
)  # fmt: skip
def test_a_workspace_overlaps_itself_and_what_is_nested(one, two, shared):
    assert overlap(one, two) is overlap(two, one) is shared


def test_a_queued_goal_says_what_it_waits_for():
    states = goals(
        {},
        {"depends_on": ("a",)},
        {"depends_on": ("nobody",)},
        {"not_before": 60.0},
        {"workspace": "/w/a/inner"},
        {},
    )
    said = [waits_for(states[goal], KnownGoals(states), ["a"], 0.0) for goal in "bcdef"]
    assert said == [
        "waits for a, which is queued",
        "waits for nobody, which is not known yet",
        "waits until 1970-01-01T00:01:00.000000+00:00",
        "waits for the workspace, where a works",
        "waits for a worker",
    ]


def named_goals(*goals, **statuses):
    """Make queued goals by their ids, or (id, depends_on)."""
    states = {}
    for n, one in enumerate(goals, start=1):
        goal, depends_on = (one, ()) if isinstance(one, str) else one
        spec = Spec(description=goal, workspace=f"/w/{goal}", depends_on=depends_on)
        states[goal] = fold([(n, ev.GoalAccepted(goal_id=goal, spec=spec))])
        status = statuses.get(goal.replace("-", "_"))
        if status:
            states[goal].goal.status = GoalStatus(status)
    return states


@pytest.mark.parametrize("name", ["make-tea-1f2a", "make-tea", "make", "MAKE-Tea-1F2A", "Make"])
def test_a_dependency_is_an_id_or_its_unique_beginning_in_any_case(name):
    states = named_goals("make-tea-1f2a", "drink-it-0000", ("after-5555", (name,)))
    assert not ready(states["after-5555"], KnownGoals(states), 0.0)
    states["make-tea-1f2a"].goal.status = GoalStatus.COMPLETED
    assert ready(states["after-5555"], KnownGoals(states), 0.0)


def called(*goals, **statuses):
    """Make queued goals by their names, or (name, depends_on); the id of `a` is `a-1111`, then `a-2222`, …"""
    states = {}
    for n, one in enumerate(goals, start=1):
        name, depends_on = (one, ()) if isinstance(one, str) else one
        goal = f"{name}-{n}{n}{n}{n}"
        spec = Spec(description=goal, name=name, workspace=f"/w/{goal}", depends_on=depends_on)
        states[goal] = fold([(n, ev.GoalAccepted(goal_id=goal, spec=spec))])
        if goal.replace("-", "_") in statuses:
            states[goal].goal.status = GoalStatus(statuses[goal.replace("-", "_")])
    return states


def test_a_name_is_held_by_the_living_goal_that_has_it_and_by_a_goal_whose_id_it_is():
    states = called("tea", "milk", tea_1111="completed")
    assert holder("tea", states) == ""
    assert holder("milk", states) == "milk-2222"
    assert holder("milk", states, besides="milk-2222") == ""
    assert holder("tea-1111", states) == "tea-1111"
    assert holder("", states) == ""


@pytest.mark.parametrize(
    ("goals", "way"),
    [
        ([("a", ("a",))], ["a", "a"]),
        ([("b", ("a",)), ("a", ("b",))], ["a", "b", "a"]),
        ([("a", ("b",)), ("b", ("c",)), ("c", ("a",))], ["c", "a", "b", "c"]),
        ([("b", ("x", "a")), ("a", ("c", "b"))], ["a", "b", "a"]),
        ([("b", ("c",)), ("a", ("b",))], []),
        (["b", ("a", ("b", "c", "d"))], []),
    ],
)
def test_the_last_goal_of_a_cycle_is_found_with_the_whole_way(goals, way):
    """Such goals were accepted, and waited for each other for ever."""
    states = called(*goals)
    new = states.pop(list(states)[-1])
    assert cycle(new, KnownGoals(states)) == way
