"""The timeline of a goal: lanes, marks, refusals."""

import pytest

from clew_daemon.record.timeline import TimelineFold, timeline
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec


class Told:
    """A fold that is told events with a number and a time."""

    def __init__(self):
        self.fold = TimelineFold()
        self.seq = 0
        self.tell(0.0, ev.GoalAccepted, goal_id="g", spec=Spec(description="g"))

    def tell(self, at, kind, **values):
        self.seq += 1
        self.fold.take(self.seq, kind(at=at, **values))
        return self.seq

    def act(self, at, seconds=1.0, epoch=1, result="success", attempt=1):
        about = {"epoch": epoch, "tool": "run_cmd", "args": {}, "attempt": attempt}
        seq = self.tell(at, ev.ActionAllowed, signature="run_cmd::{}", **about)
        self.tell(at + seconds, ev.ActionFinished, of=seq, result=result, outcome="")
        return seq


@pytest.fixture
def told():
    return Told()


def test_each_worker_has_a_lane_with_its_actions_in_order(told):
    told.tell(1.0, ev.WorkerStarted, epoch=1)
    first = told.act(2.0)
    told.tell(5.0, ev.WorkerExited, epoch=1, reason="killed by signal 9", crash=True)
    told.tell(6.0, ev.WorkerStarted, epoch=2)
    second = told.act(7.0, epoch=2, result="failure")
    one, two = timeline(told.fold, 10.0).lanes
    assert [mark.seq for mark in one.marks] == [first]
    assert (one.crashed, one.ending) == (True, "killed by signal 9")
    assert [(mark.seq, mark.result) for mark in two.marks] == [(second, "failure")]
    assert (two.crashed, two.ending) == (False, "")
    assert one.start < one.marks[0].start < one.start + one.width <= two.start


def test_a_refusal_is_a_mark_and_is_remembered_with_its_words(told):
    told.tell(1.0, ev.WorkerStarted, epoch=1)
    about = {"epoch": 1, "tool": "run_cmd", "args": {}, "signature": "run_cmd::{}"}
    seq = told.tell(2.0, ev.ActionBlocked, reason="crash", message="third time", **about)
    [lane] = timeline(told.fold, 5.0).lanes
    assert [(mark.seq, mark.result) for mark in lane.marks] == [(seq, "blocked")]
    assert [(one.seq, one.why) for one in told.fold.refusals] == [
        (seq, "the worker died while it ran")
    ]
