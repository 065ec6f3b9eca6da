"""The main job is done once, whatever the surroundings are: see `environments.py` for all of them."""

import pytest
from environments import ALL, Environment
from main_job import main_job

CASES = [
    pytest.param(one, id=one.name, marks=() if one.sample else pytest.mark.long) for one in ALL
]


@pytest.mark.parametrize("around", CASES)
def test_the_main_job_is_done_once_over_two_kills_with(around: Environment, base, place):
    with around.make(base) as ways:
        main_job(place(ways))
