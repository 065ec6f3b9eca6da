"""Whole lives of the daemon in simulated time: a fixed set of seeds, and a fresh one each time."""

import os
import random
import re

import pytest
from sim_agent import METHODS
from sim_life import live
from sim_world import HAPPENINGS, Chaos, Clock, every_world

CHUNK = 20
TELLING = (249, 141, 247, 104, 246, 71, 10)
"""Seeds whose lives have much in them: lived first."""
STOPPED = "reason=(budget: |the agent asks|blocked actions|failed|.* messages instead)"
"""Why a goal may be blocked whose agent does nothing but call one method."""


@pytest.mark.parametrize("chunk", range(4))
def test_the_invariants_hold_in_lives_that_are_always_the_same(chunk):
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        live(seed)


def test_the_invariants_hold_in_a_life_that_was_never_lived_before():
    live(random.SystemRandom().randrange(1 << 32))


def test_a_seed_lives_the_same_life_again():
    for seed in range(3, 6):
        assert live(seed).lines == live(seed).lines


def test_lives_have_all_that_a_life_can_have():
    missing = {"completed", "failed", "blocked", "cancelled"}
    missing |= {"action_interrupted", "planned", "escalated", "unblocked", "feedback_given"}
    missing |= {"check_proposed", "attempt_started", "undo_finished", "restored"}
    restarts = 0
    for seed in (*TELLING, *range(300)):
        lived = live(seed)
        missing -= {*lived.statuses, *lived.events}
        restarts += lived.restarts
        if not missing and restarts > 20:
            break
    assert missing == set()
    assert restarts > 20


@pytest.fixture
def quiet(monkeypatch):
    """Give a function that lives a life of one goal whose agent has one character; nobody else does anything."""

    def lived(seed, character, **spec):
        spec = {"not_before": None, **spec}
        every_world(monkeypatch, 1, spec, chaos=Chaos(), deaths=(), **dict.fromkeys(HAPPENINGS, 0))
        return live(seed, (character,))

    return lived


@pytest.mark.parametrize("kind", ["plain", "own"])
@pytest.mark.parametrize("method", METHODS)
def test_an_agent_that_calls_one_method_for_ever_is_stopped_by_its_limits(method, kind, quiet):
    for seed in range(2):
        lived = quiet(seed, f"only {method}", agent=kind, budget_wall_s=None)
        assert lived.statuses[0] in ("blocked", "failed", "completed")
        if lived.statuses == ["blocked"]:
            reason = [line for line in lived.lines if "goal_blocked" in line][-1]
            assert re.search(STOPPED, reason), reason


def test_an_agent_that_calls_any_method_at_random_never_exceeds_a_limit():
    first = int(os.environ["SEED"])
    for seed in range(first, first + CHUNK // 2):
        live(seed, ("erratic",))


def test_a_clock_that_was_set_keeps_no_goal_waiting_whose_time_has_come(monkeypatch):
    spec = {"not_before": Clock().time() + 3_000}
    every_world(monkeypatch, 1, spec, deaths=(), jumps=1, requests=0, reloads=0, edits=0)
    lives = [live(seed) for seed in range(12)]
    forwards = [one for one in lives if any("set by 3600" in line for line in one.lines)]
    assert forwards
    assert all(one.events["goal_started"] for one in forwards)
