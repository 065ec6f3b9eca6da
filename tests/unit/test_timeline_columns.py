"""A timeline in columns of characters."""

from hypothesis import given
from hypothesis import strategies as st

from clew_daemon.record.timeline import Lane, Mark, column_of, lane_columns


def lane(*marks, start=0.0, width=1.0):
    return Lane(1, 1, "a", start, width, marks, "", crashed=False)


def mark(seq, start, width=0.0, result="success"):
    return Mark(seq, start, width, result, "run_cmd")


def seqs(columns):
    return {at: one.seq for at, one in columns.marks.items()}


@given(st.floats(0, 1), st.integers(1, 500))
def test_every_place_has_a_column(place, width):
    assert 0 <= column_of(place, width) < width


def test_a_worker_lives_from_its_first_to_its_last_column():
    columns = lane_columns(lane(start=0.25, width=0.5), 8)
    assert (columns.first, columns.last) == (2, 6)


def test_a_long_action_is_in_every_column_that_it_took():
    assert seqs(lane_columns(lane(mark(7, 0.5, 0.3)), 10)) == {5: 7, 6: 7, 7: 7, 8: 7}


def test_of_marks_that_share_a_column_the_worst_is_shown_and_the_later_of_equals():
    shared = lane(mark(1, 0.1, result="blocked"), mark(2, 0.1), mark(3, 0.5), mark(4, 0.5))
    assert seqs(lane_columns(shared, 10)) == {1: 1, 5: 4}
