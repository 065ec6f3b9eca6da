"""Runs that are hard to judge (tests/loop_runs): ten loops and ten pieces of honest work of each kind.

Each is played twice: with a measured workspace, and as an agent with tools of its own reports it.
"""

import pytest
from tests.loop_runs import KINDS
from tests.loop_runs.player import play

LOOPS = [
    pytest.param(run, id=f"{kind}: {run.name}") for kind, of in KINDS.items() for run in of.LOOPS
]
WORK = [
    pytest.param(run, id=f"{kind}: {run.name}") for kind, of in KINDS.items() for run in of.WORK
]
WARNED = {"different messages"}
"""Equal answers under a uuid, with no other progress, look like searches that find nothing: warned of as before."""

measured = pytest.mark.parametrize("measured", [True, False], ids=["measured", "claimed"])


@measured
@pytest.mark.parametrize("run", LOOPS)
def test_a_loop_is_noticed_in_time(run, measured):
    first = play(run, measured=measured).first
    assert first is not None
    assert first < run.latest


@measured
@pytest.mark.parametrize("run", WORK)
def test_honest_work_is_neither_refused_nor_warned_of(run, measured):
    heard = play(run, measured=measured)
    assert heard.refusals == []
    assert not heard.warnings or run.name in WARNED


def test_there_are_at_least_ten_of_each_kind():
    assert min(min(len(of.LOOPS), len(of.WORK)) for of in KINDS.values()) == 10
