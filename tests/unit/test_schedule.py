"""Which goals get a worker now."""

import pytest

from clew_daemon.host.folders import overlap
from clew_daemon.record.dependencies import KnownGoals, bound, cycle, holder
from clew_daemon.supervision.schedule import (
    due,
    is_stuck,
    lost_dependency,
    next_moment,
    ready,
    waits_for,
)
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


def with_status(state, status, **more):
    state.goal.status = status
    for name, value in more.items():
        setattr(state, name, value)
    return state


def test_the_earlier_accepted_first():
    assert due(KnownGoals(goals({}, {}, {})), [], 0.0, 4) == ["a", "b", "c"]


def test_the_larger_priority_before():
    assert due(KnownGoals(goals({}, {"priority": 2}, {"priority": -1})), [], 0.0, 4) == [
        "b",
        "a",
        "c",
    ]


@pytest.mark.parametrize(
    ("running", "expected"), [([], 2), (["a"], 1), (["a", "b"], 0), (["a", "b", "c"], 0)]
)
def test_never_more_than_max_workers(running, expected):
    assert len(due(KnownGoals(goals({}, {}, {}, {})), running, 0.0, 2)) == expected


def test_what_runs_is_not_started_again():
    assert due(KnownGoals(goals({}, {})), ["a"], 0.0, 4) == ["b"]


@pytest.mark.parametrize(
    ("one", "two", "shared"),
    [("/w", "/w", True), ("/w", "/w/x", True), ("/w/x/y", "/w/x", True), ("/w/x", "/w/xy", False),
     ("/w/a", "/w/b", False)],
)  # fmt: skip
def test_a_workspace_overlaps_itself_and_what_is_nested(one, two, shared):
    assert overlap(one, two) is overlap(two, one) is shared


def test_the_later_of_two_in_one_workspace_waits():
    states = goals({"workspace": "/v"}, {"workspace": "/v/x"}, {})
    assert due(KnownGoals(states), [], 0.0, 4) == ["a", "c"]
    assert due(KnownGoals(states), ["a"], 0.0, 4) == ["c"]
    states["a"].goal.status = GoalStatus.COMPLETED
    assert due(KnownGoals(states), [], 0.0, 4) == ["b", "c"]


def test_nobody_overtakes_one_that_waits_for_its_workspace():
    states = goals({"workspace": "/w/x"}, {"workspace": "/w"}, {"workspace": "/w/y"})
    assert due(KnownGoals(states), ["a"], 0.0, 4) == []
    assert due(KnownGoals(states), [], 0.0, 4) == ["a"]


def test_not_before_its_time():
    states = goals({"not_before": 10.0})
    assert due(KnownGoals(states), [], 9.9, 4) == []
    assert due(KnownGoals(states), [], 10.0, 4) == ["a"]


def test_not_before_what_it_depends_on_is_completed():
    states = goals({}, {"depends_on": ("a",)}, {"depends_on": ("nobody",)})
    assert due(KnownGoals(states), ["a"], 0.0, 4) == []
    states["a"].goal.status = GoalStatus.COMPLETED
    assert due(KnownGoals(states), [], 0.0, 4) == ["b"]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_dependency_that_ended_badly_is_named(status):
    states = goals({}, {"depends_on": ("a",)})
    assert lost_dependency(states["b"], KnownGoals(states)) is None
    states["a"].goal.status = GoalStatus(status)
    lost = lost_dependency(states["b"], KnownGoals(states))
    assert lost is not None
    assert (lost.goal, lost.status) == ("a", status)


@pytest.mark.parametrize("status", list(GoalStatus))
def test_every_status_is_answered(status):
    states = goals({})
    with_status(states["a"], status, wait_until=5.0)
    expected = status in (GoalStatus.QUEUED, GoalStatus.IN_PROGRESS, GoalStatus.WAITING)
    assert ready(states["a"], KnownGoals(states), 5.0) is expected


def test_a_waiting_goal_goes_on_at_its_time_and_a_paused_one_does_not():
    states = goals({}, {})
    with_status(states["a"], GoalStatus.WAITING, wait_until=7.0)
    with_status(states["b"], GoalStatus.WAITING, wait_until=None, paused=True)
    assert due(KnownGoals(states), [], 6.0, 4) == []
    assert due(KnownGoals(states), [], 7.0, 4) == ["a"]


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
    said = [waits_for(states[goal], KnownGoals(states), ["a"], 0.0) for goal in "bcdef"]
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
    assert waits_for(states["a"], KnownGoals(states), [], 0.0) == ""


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


def test_an_id_is_itself_also_where_another_one_begins_with_it():
    states = named_goals(
        "tea-1f2a", "tea-1f2a-more", ("after-5555", ("tea-1f2a",)), tea_1f2a="completed"
    )
    assert ready(states["after-5555"], KnownGoals(states), 0.0)


def test_a_beginning_of_several_goals_is_waited_for_and_named():
    states = named_goals(
        "tea-1111", "tea-2222", ("after-5555", ("tea",)), tea_1111="completed", tea_2222="completed"
    )
    assert not ready(states["after-5555"], KnownGoals(states), 0.0)
    assert lost_dependency(states["after-5555"], KnownGoals(states)) is None
    told = waits_for(states["after-5555"], KnownGoals(states), [], 0.0)
    assert "tea, which matches 2 goals (tea-1111, tea-2222)" in told
    assert "name one of them (`clew edit after-5555`)" in told


def test_an_unknown_dependency_is_waited_for_and_named():
    states = named_goals("make-tea-1f2a", ("after-5555", ("make-tee-1f2a",)))
    assert not ready(states["after-5555"], KnownGoals(states), 0.0)
    after, known = states["after-5555"], KnownGoals(states)
    told = waits_for(after, known, [], 0.0)
    assert told == "waits for make-tee-1f2a, which is not known yet"


def test_a_goal_that_waits_for_a_paused_one_is_told_so_and_one_that_waits_for_none_needs_a_person():
    states = named_goals("tea-1111", ("milk-2222", ("tea",)), ("sugar-3333", ("tee",)))
    states["tea-1111"].goal.status, states["tea-1111"].paused = GoalStatus.WAITING, True
    known = KnownGoals(states)
    told = waits_for(states["milk-2222"], known, [], 0.0)
    assert told == "waits for tea-1111, which is paused"
    assert [goal for goal, state in states.items() if is_stuck(state, known)] == ["sugar-3333"]


def test_a_goal_that_depends_on_itself_is_told_so():
    states = named_goals(("make-tea-1f2a", ("make-tea",)))
    told = waits_for(states["make-tea-1f2a"], KnownGoals(states), [], 0.0)
    assert "make-tea, which is this goal itself" in told


def test_its_own_beginning_means_another_goal_where_there_is_one():
    states = named_goals("tea-1111", ("tea-2222", ("tea",)), tea_1111="completed")
    assert ready(states["tea-2222"], KnownGoals(states), 0.0)
    states = named_goals(("tea-2222", ("tea",)))
    assert ready(states["tea-2222"], KnownGoals(states, {"tea-1111": "completed"}), 0.0)


def test_a_circle_is_named_whole():
    states = named_goals(
        ("a-1111", ("b",)), ("b-2222", ("c",)), ("c-3333", ("a",)), ("d-4444", ("a",))
    )
    told = waits_for(states["a-1111"], KnownGoals(states), [], 0.0)
    assert "b-2222, which waits for this goal (a-1111 → b-2222 → c-3333 → a-1111)" in told
    assert (
        waits_for(states["d-4444"], KnownGoals(states), [], 0.0)
        == "waits for a-1111, which is queued"
    )


def test_a_goal_that_was_removed_after_it_completed_counts_as_completed():
    states = named_goals(("after-5555", ("tea",)))
    after = states["after-5555"]
    assert ready(after, KnownGoals(states, {"tea-1111": "completed"}), 0.0)
    assert due(KnownGoals(states, {"tea-1111": "completed"}), [], 0.0, 1) == ["after-5555"]
    assert not ready(
        after, KnownGoals(states, {"tea-1111": "completed", "tea-2222": "completed"}), 0.0
    )


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_goal_that_was_removed_after_it_ended_badly_counts_as_that(status):
    states = named_goals(("after-5555", ("tea",)))
    lost = lost_dependency(states["after-5555"], KnownGoals(states, {"tea-1111": status}))
    assert lost is not None
    assert (lost.goal, lost.status) == ("tea-1111", status)


def test_a_goal_that_was_removed_by_an_older_clew_is_waited_for_and_named():
    states = named_goals(("after-5555", ("tea",)))
    assert not ready(states["after-5555"], KnownGoals(states, {"tea-1111": ""}), 0.0)
    assert lost_dependency(states["after-5555"], KnownGoals(states, {"tea-1111": ""})) is None
    told = waits_for(states["after-5555"], KnownGoals(states, {"tea-1111": ""}), [], 0.0)
    assert "whether it was completed is not on record" in told


def test_a_goal_on_record_goes_before_one_that_was_removed():
    states = named_goals("tea-2222", ("after-5555", ("tea",)), tea_2222="in_progress")
    assert not ready(states["after-5555"], KnownGoals(states, {"tea-1111": "completed"}), 0.0)


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


def test_a_dependency_is_the_name_of_a_goal_and_of_several_the_living_or_the_newest_one():
    states = called("tea", "tea", ("after", ("tea",)), tea_1111="completed")
    assert not ready(states["after-3333"], KnownGoals(states), 0.0)
    assert (
        waits_for(states["after-3333"], KnownGoals(states), [], 0.0)
        == "waits for tea-2222, which is queued"
    )
    states = called("tea", "tea", ("after", ("tea",)), tea_1111="failed", tea_2222="completed")
    assert ready(states["after-3333"], KnownGoals(states), 0.0)


def test_only_beginnings_are_bound_to_the_name_or_the_id_that_they_begin():
    states = called("tea", "milk", tea_1111="completed")
    states |= named_goals("plain-3333")
    words = ("tea", "te", "milk", "mil", "tea-1", "plain", "sugar", "plain-3333")
    known = KnownGoals(states, {"gone-4444": "completed"})
    assert bound((*words, "gone"), known) == (
        "tea",
        "milk",
        "tea-1111",
        "plain-3333",
        "sugar",
        "gone-4444",
    )


@pytest.mark.parametrize("word", ["tea", "te", "TEA"])
def test_a_goal_that_is_submitted_again_under_its_name_is_the_one_meant(word):
    """In any order of submission: the dependent of the failed one waited for that for ever."""
    states = called("tea")
    (name,) = bound((word,), KnownGoals(states))
    states = called("tea", "tea", ("after", (name,)), tea_1111="failed", tea_2222="completed")
    assert lost_dependency(states["after-3333"], KnownGoals(states)) is None
    assert ready(states["after-3333"], KnownGoals(states), 0.0)


@pytest.mark.parametrize("other", ["/v", "/v/x", "/v/x/y"])
def test_one_behind_a_queued_goal_in_its_workspace_says_so(other):
    states = goals({"workspace": "/v/x"}, {"workspace": other}, {"workspace": "/v/xy"})
    known = KnownGoals(states)
    said = [waits_for(state, known, [], 0.0) for state in states.values()]
    assert said == [
        "waits for a worker",
        "waits for the workspace, where a goes first",
        "waits for the workspace, where b goes first" if other == "/v" else "waits for a worker",
    ]


def test_one_that_could_not_work_now_keeps_no_other_from_their_workspace():
    states = goals({"workspace": "/v", "depends_on": ("nobody",)}, {"workspace": "/v"})
    assert waits_for(states["b"], KnownGoals(states), [], 0.0) == "waits for a worker"


def test_one_that_retries_goes_behind_those_that_did_not_wait():
    """Four goals of a dead endpoint kept every other one from a worker."""
    states = goals({}, {}, {}, {"priority": 1})
    for goal in "ad":
        with_status(states[goal], GoalStatus.WAITING, wait_until=7.0)
    assert due(KnownGoals(states), [], 8.0, 4) == ["d", "b", "c", "a"]


def test_a_name_means_the_same_however_many_look_it_up():
    states = called("tea", ("tea-cup", ("te",)), ("after", ("te",)), tea_1111="completed")
    known = KnownGoals(states)
    alone = ready(states["tea-cup-2222"], KnownGoals(states), 0.0)
    assert not ready(states["after-3333"], known, 0.0)
    assert ready(states["tea-cup-2222"], known, 0.0) is alone is True


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


@pytest.mark.parametrize("status", ["blocked", "waiting", "completed", "in_progress"])
def test_a_goal_that_waits_for_no_other_any_more_closes_no_cycle(status):
    states = called(("b", ("a",)), ("a", ("b",)), b_1111=status)
    states["b-1111"].started_at = 1.0
    assert cycle(states.pop("a-2222"), KnownGoals(states)) == []


def test_a_blocked_goal_that_has_not_started_closes_a_cycle():
    states = called(("b", ("a", "x")), ("a", ("b",)), b_1111="blocked")
    assert cycle(states.pop("a-2222"), KnownGoals(states)) == ["a", "b", "a"]
