"""The timeline of a goal: lanes, marks, squeezed idle time."""

import pytest

from clew_daemon.record.timeline import MARKS_MAX, TimelineFold, timeline
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec

HOUR = 3_600.0


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


def test_a_night_without_work_takes_little_room_and_is_named(told):
    told.tell(0.0, ev.WorkerStarted, epoch=1)
    told.act(0.0, seconds=600.0)
    told.act(600.0 + 8 * HOUR, seconds=600.0)
    found = timeline(told.fold, 1_200.0 + 8 * HOUR)
    [lane], [gap] = found.lanes, found.gaps
    assert gap.seconds == pytest.approx(8 * HOUR)
    assert lane.marks[0].width > 0.4
    assert lane.marks[1].start - (lane.marks[0].start + lane.marks[0].width) < 0.1


def test_every_place_is_between_left_and_right_in_the_order_of_time(told):
    told.tell(0.0, ev.WorkerStarted, epoch=1)
    for at in (1.0, 5.0, 500.0, 501.0, 9_000.0):
        told.act(at)
    [lane] = timeline(told.fold, 20_000.0).lanes
    starts = [mark.start for mark in lane.marks]
    assert starts == sorted(starts)
    assert all(0.0 <= mark.start <= mark.start + mark.width <= 1.0 for mark in lane.marks)


def test_many_actions_share_marks_which_show_the_worst_and_count_all(told):
    told.tell(0.0, ev.WorkerStarted, epoch=1)
    for number in range(3_000):
        told.act(number * 2.0, result="failure" if number == 1_000 else "success")
    [lane] = timeline(told.fold, 6_001.0).lanes
    assert len(lane.marks) <= MARKS_MAX + 1
    assert sum(mark.count for mark in lane.marks) == 3_000
    assert sum(mark.result == "failure" for mark in lane.marks) == 1
