"""A timeline in columns of characters."""

from hypothesis import given
from hypothesis import strategies as st

from clew_daemon.record.timeline import Lane, column_of, lane_columns


def lane(*marks, start=0.0, width=1.0):
    return Lane(1, 1, "a", start, width, marks, "", crashed=False)


@given(st.floats(0, 1), st.integers(1, 500))
def test_every_place_has_a_column(place, width):
    assert 0 <= column_of(place, width) < width


def test_a_worker_lives_from_its_first_to_its_last_column():
    columns = lane_columns(lane(start=0.25, width=0.5), 8)
    assert (columns.first, columns.last) == (2, 6)
