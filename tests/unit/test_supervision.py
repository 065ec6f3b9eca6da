"""Which goals get a worker now, when a crash restarts one, and how many LLM calls run at once."""

import asyncio

import pytest

from clew_daemon.host.folders import overlap
from clew_daemon.processes.llm_slots import REMOTE_CALLS, LlmSlots, calls_at, is_loopback
from clew_daemon.record.dependencies import KnownGoals, ambiguous, meant
from clew_daemon.supervision.goal_run import RestartHistory, restart_s, wait_s
from clew_daemon.supervision.schedule import ready, waits_for
from clew_shared.config.tables import RestartSettings
from clew_shared.record import events as ev
from clew_shared.record.fold import fold
from clew_shared.record.model import GoalStatus
from clew_shared.record.spec import Spec


def goals(**specs):
    """Queued goals by their ids, in the order of acceptance, each in a workspace of its own."""
    states = {}
    for n, (name, given) in enumerate(specs.items(), start=1):
        goal = name.replace("_", "-")
        spec = Spec(**{"description": goal, "workspace": f"/w/{goal}", **given})
        states[goal] = fold([(n, ev.GoalAccepted(goal_id=goal, spec=spec))])
    return states


@pytest.mark.parametrize(
    ("one", "two", "shared"),
    [("/w", "/w", True), ("/w", "/w/x", True), ("/w/x/y", "/w/x", True), ("/w/x", "/w/xy", False),
     ("/w/a", "/w/b", False)],
)  # fmt: skip
def test_a_workspace_overlaps_itself_and_what_is_nested(one, two, shared):
    assert overlap(one, two) is overlap(two, one) is shared


def test_a_queued_goal_says_what_it_waits_for():
    states = goals(
        a={},
        b={"depends_on": ("a",)},
        c={"depends_on": ("nobody",)},
        d={"not_before": 60.0},
        e={"workspace": "/w/a/inner"},
        f={},
    )
    said = [waits_for(states[goal], KnownGoals(states), ["a"], 0.0) for goal in "bcdef"]
    assert said == [
        ("waits for a, which is queued", False),
        ("waits for nobody, which is not known yet", True),
        ("waits until 1970-01-01T00:01:00.000000+00:00", False),
        ("waits for the workspace, where a works", False),
        ("waits for a worker", False),
    ]


@pytest.mark.parametrize(
    ("now", "is_ready"), [(99.0, True), (100.0, False), (159.0, False), (160.0, True)]
)
def test_a_wait_ends_at_its_time_and_with_a_clock_that_is_set_back_behind_its_beginning(
    now, is_ready
):
    [state] = goals(a={}).values()
    fold([(9, ev.GoalWaiting(at=100.0, reason="busy", until=160.0))], state)
    assert ready(state, KnownGoals({"a": state}), now) is is_ready


@pytest.mark.parametrize("name", ["make-tea-1f2a", "make-tea", "make", "MAKE-Tea-1F2A", "Make"])
def test_a_dependency_is_an_id_or_its_unique_beginning_in_any_case(name):
    states = goals(make_tea_1f2a={}, drink_it_0000={}, after_5555={"depends_on": (name,)})
    assert not ready(states["after-5555"], KnownGoals(states), 0.0)
    states["make-tea-1f2a"].goal.status = GoalStatus.COMPLETED
    assert ready(states["after-5555"], KnownGoals(states), 0.0)


def test_a_beginning_of_several_goals_means_none_of_them_but_those_that_are_listed():
    states = goals(go_1={}, go_2={}, go_3={"name": "gone"}, other={"name": "go"})
    names = {goal: state.spec.name for goal, state in states.items()}
    states["go-2"].goal.status = GoalStatus.COMPLETED

    def found(text):
        return meant(text, names, states.__getitem__)

    assert found("go-") == ["go-1", "go-2", "go-3"]
    said = ambiguous("go-", map(states.get, found("go-")), 0.0)
    assert said.startswith("'go-' matches 3 goals: go-1 (queued, ")
    assert (found("go"), found("go-2"), found("gon"), found("o")) == (
        ["other"], ["go-2"], ["go-3"], ["other"]
    )  # fmt: skip
    states["go-1"].removed = states["go-3"].removed = True
    assert found("go-") == ["go-2"]


NUMBERS = RestartSettings()


@pytest.mark.parametrize(
    ("every_s", "lived_s", "decided"),
    [
        (10.0, 0.0, [0.0, 0.1, 0.2, 0.4, 0.8, None]),
        (60.0, 0.0, [0.0] * 9),  # crashes that are a window apart never give up
        (1.0, 30.0, [0.0] * 9),  # a healthy stretch starts the count anew
    ],
)
def test_a_crash_restarts_at_once_then_later_and_the_sixth_in_a_minute_gives_up(
    every_s, lived_s, decided, monkeypatch
):
    history = RestartHistory()
    for n, expected in enumerate(decided):
        monkeypatch.setattr("time.monotonic", lambda n=n: n * every_s)
        assert restart_s(history.crashed("a", lived_s, NUMBERS), NUMBERS) == expected
    history.take("a", ev.GoalRequeued(by="continue"))  # a person's word
    assert history.crashed("a", lived_s, NUMBERS) == 1


def test_a_restart_is_never_later_than_its_bound():
    numbers = RestartSettings(max_restarts=5000, backoff_max_s=7.0)
    assert restart_s(3000, numbers) == 7.0


@pytest.mark.parametrize(
    ("waits", "expected"), [(0, 1.0), (1, 2.0), (2, 4.0), (5, 32.0), (6, 60.0), (10**6, 60.0)]
)
def test_a_worker_that_asks_to_be_retried_later_waits_longer_each_time(waits, expected):
    assert wait_s(waits, NUMBERS) == expected


def test_this_machine_is_loopback_and_no_other():
    here = ("localhost:11434/v1", "127.0.0.1:8080", "[::1]:8080/v1", "127.8.8.8", "a.localhost")
    elsewhere = ("api.example.org/v1", "192.168.1.5", "localhost.example.org", "")
    assert all(is_loopback(f"http://{one}") for one in here)
    assert not any(is_loopback(f"http://{one}") for one in elsewhere)


def test_so_many_calls_may_be_open_at_once():
    assert calls_at("http://127.0.0.1:1", None) == 1
    assert calls_at("https://api.example.org", None) == REMOTE_CALLS
    assert calls_at("http://127.0.0.1:1", 3) == 3


def test_calls_of_one_server_wait_for_each_other_whatever_the_path():
    slots = LlmSlots()
    assert slots.of("http://localhost:1/v1") is slots.of("http://LOCALHOST:1")


async def opened(*calls):
    """Return which of these tasks have their call."""
    for _ in range(5):
        await asyncio.sleep(0)
    return [call.done() for call in calls]


async def test_calls_are_served_in_order_each_by_the_number_of_its_goal():
    endpoint = LlmSlots().of("http://localhost:1")
    await endpoint.acquire(2)
    await endpoint.acquire(2)
    waiting = [asyncio.ensure_future(endpoint.acquire(calls)) for calls in (1, 1, 2, 1)]
    assert await opened(*waiting) == [False] * 4
    waiting[0].cancel()
    endpoint.release()  # of two that a goal began before a reload: a limit of one waits for both
    assert await opened(*waiting) == [True, False, False, False]
    endpoint.release()
    assert await opened(*waiting) == [True, True, True, False]
    assert endpoint.is_full(2)
