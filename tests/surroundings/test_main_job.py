"""The main job is done once, whatever the surroundings are (`environments.py`), also where /proc numbers others."""

import pytest
from environments import ALL, Environment, tried
from main_job import Ways, main_job

CASES = [
    pytest.param(one, id=one.name, marks=() if one.sample else pytest.mark.long) for one in ALL
]


@pytest.mark.parametrize("around", CASES)
def test_the_main_job_is_done_once_over_two_kills_with(around: Environment, base, place):
    with around.make(base) as ways:
        main_job(place(ways))


def test_workers_are_not_ended_for_the_memory_of_others_and_that_is_said(place):
    unshared = tried("unshare", "-pf", "--kill-child")
    clew = place(Ways(daemon=unshared, config={"limits.memory_mb": 256}))
    clew.start()
    busy = [f"for n in $(seq 300); do true | true; done; echo {n} >> trace" for n in range(4)]
    goal = clew.hand_in(busy)
    clew.wait("goal.completed", goal=goal)
    assert clew.trace() == ["0", "1", "2", "3"]
    assert not clew.seen("worker.killed")
    assert clew.stop() == 0
