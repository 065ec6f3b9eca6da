"""Folds over some kinds of events (record/visitor)."""

from clew_shared.record import events as ev
from clew_shared.record.visitor import EventFold, takes


class Failures(EventFold[str]):
    @takes(ev.SubtaskFailed)
    def _subtask(self, seq, event):
        return f"{seq}: {event.failure}"

    @takes(ev.GoalEnded, ev.GoalBlocked)
    def _goal(self, seq, event):
        return f"{seq}: {event.reason}"


def test_each_event_is_taken_in_by_its_method():
    fold = Failures()
    assert fold.take(1, ev.SubtaskFailed(failure="no")) == "1: no"
    assert fold.take(2, ev.GoalBlocked(reason="stuck")) == "2: stuck"
    assert fold.take(3, ev.GoalEnded(status="failed", reason="over")) == "3: over"


def test_an_event_that_no_method_takes_changes_nothing_but_the_number_of_the_last_one():
    fold = Failures(after=6)
    assert fold.seq == 6
    assert fold.take(7, ev.GoalStarted()) is None
    assert fold.seq == 7


def test_a_reader_needs_to_decode_only_the_kinds_that_are_taken_in():
    assert Failures.kinds == {"subtask_failed", "goal_ended", "goal_blocked"}
