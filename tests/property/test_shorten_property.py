"""What every way of shortening a text promises, for any text and limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_shared.text import shorten

lines = st.text(st.sampled_from("ab \n\t…é"), max_size=300)
limits = st.integers(1, 350)


WAYS = (shorten.beginning, shorten.in_one_line, shorten.both_ends, shorten.without_middle)


@pytest.mark.parametrize("way", WAYS)
@given(text=lines, limit=limits)
def test_no_result_is_longer_than_the_limit(way, text, limit):
    assert len(way(text, limit)) <= limit


@given(lines, limits)
def test_a_shortened_beginning_ends_with_an_ellipsis_and_else_is_the_text(text, limit):
    for shown, whole in (
        (shorten.beginning(text, limit), text),
        (shorten.in_one_line(text, limit), shorten.one_line(text)),
    ):
        assert shown == whole or (shown.endswith("…") and whole.startswith(shown[:-1]))
