"""What every way of shortening a text promises, for any text and limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_shared.text import shorten

lines = st.text(st.sampled_from("ab \n\t…é"), max_size=300)
limits = st.integers(1, 350)


@pytest.mark.parametrize(
    "way",
    [
        shorten.beginning,
        shorten.in_one_line,
        shorten.in_whole_words,
        shorten.both_ends,
        shorten.without_middle,
    ],
)
@given(text=lines, limit=limits)
def test_no_result_is_longer_than_the_limit(way, text, limit):
    assert len(way(text, limit)) <= limit


@given(lines, limits)
def test_a_text_that_fits_is_unchanged(text, limit):
    for way in (shorten.beginning, shorten.without_middle):
        assert way(text, max(limit, len(text))) == text
    line = shorten.one_line(text)
    for way in (shorten.in_one_line, shorten.in_whole_words, shorten.both_ends):
        assert way(line, max(limit, len(line))) == line


@given(lines, limits)
def test_a_shortened_beginning_ends_with_an_ellipsis_and_else_is_the_text(text, limit):
    for shown, whole in (
        (shorten.beginning(text, limit), text),
        (shorten.in_one_line(text, limit), shorten.one_line(text)),
        (shorten.in_whole_words(text, limit), shorten.one_line(text)),
    ):
        assert shown == whole or (shown.endswith("…") and whole.startswith(shown[:-1]))


@given(lines, st.integers(60, 350))
def test_where_both_ends_are_shown_the_text_begins_and_ends_with_them(text, limit):
    stripped = text.strip()
    for shown, whole in (
        (shorten.both_ends(text, limit), stripped),
        (shorten.without_middle(text, limit), text),
    ):
        kept = len(whole) if shown == whole else limit // 4
        assert shown[:kept] == whole[:kept]
        assert shown[len(shown) - kept :] == whole[len(whole) - kept :]


def test_a_beginning_in_whole_words_tears_no_word_unless_it_is_very_long():
    assert shorten.in_whole_words("one two three", 9) == "one two…"
    assert shorten.in_whole_words("one  \n two", 9) == "one two"
    assert shorten.in_whole_words("x" * 20, 9) == "x" * 8 + "…"
