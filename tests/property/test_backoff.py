"""The pause before another try."""

from hypothesis import given
from hypothesis import strategies as st

from clew_shared.backoff import backoff_s


@given(st.integers(-1, 10_000), st.floats(0.01, 10), st.floats(10, 1_000))
def test_it_begins_with_the_first_pause_grows_and_is_bounded(earlier, first_s, max_s):
    assert first_s <= backoff_s(earlier, first_s, max_s) <= backoff_s(earlier + 1, first_s, max_s)
    assert backoff_s(earlier, first_s, max_s) <= max_s
    assert backoff_s(0, first_s, max_s) == first_s


@given(st.integers(0, 20), st.floats(0.01, 10))
def test_each_pause_is_twice_the_one_before_while_there_is_room(earlier, first_s):
    assert backoff_s(earlier + 1, first_s, 1e9) == 2 * backoff_s(earlier, first_s, 1e9)
