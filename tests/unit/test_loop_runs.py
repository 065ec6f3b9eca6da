"""Runs that are hard to judge (tests/loop_runs): ten loops and ten pieces of honest work of each kind.

Each is played twice: with a measured workspace, and as an agent with tools of its own reports it. Most of the loops
were written together with rules that fired early; what counts here is that honest work is never refused, and how many
loops are noticed in their short windows at all.
"""

import pytest
from tests.loop_runs.player import play, written_runs

LOOPS = [run for run in written_runs() if run.latest]
WORK = [run for run in written_runs() if not run.latest]

measured = pytest.mark.parametrize("measured", [True, False], ids=["measured", "claimed"])


@measured
def test_honest_work_is_never_refused_and_seldom_spoken_to(measured):
    heard = {run.name: play(run, measured=measured) for run in WORK}
    assert [name for name, one in heard.items() if one.refusals] == []
    assert len([name for name, one in heard.items() if one.warnings]) <= len(WORK) // 8


@measured
def test_most_loops_are_noticed_in_time(measured):
    first = {run.name: (play(run, measured=measured).first, run.latest) for run in LOOPS}
    noticed = [name for name, (at, latest) in first.items() if at is not None and at < latest]
    assert len(noticed) >= 0.65 * len(LOOPS), sorted(set(first) - set(noticed))
