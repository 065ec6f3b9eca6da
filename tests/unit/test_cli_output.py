"""Lines on a terminal: wrapped between words, never cut, in columns where there is room."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from clew_daemon.reading.output import columns, wrapped
from clew_daemon.reading.sanitize import duration

WORDS = st.lists(st.text("ab[]漢 \u0301é-", min_size=1, max_size=90), max_size=12).map(" ".join)


def parts(line, width):
    return [part.plain for part in wrapped(line, width)]


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS, st.just("")), min_size=1, max_size=4), st.integers(20, 90))
def test_nothing_is_lost_and_no_part_of_several_words_is_too_wide(line, width):
    found = parts(line, width)
    text = "".join(text for text, _ in line)
    assert "".join("".join(found).split()) == "".join(text.split())
    for part in found:
        assert cell_len(part) <= width or len(part.split()) == 1


def test_a_last_cell_without_room_begins_a_line_of_its_own():
    long = [[("a-1", ""), ("completed, unverified", ""), ("word " * 9, "")]]
    assert parts(columns(long)[0], 40) == [
        "a-1  completed, unverified",
        "    word word word word word word word",
        "    word word",
    ]


@pytest.mark.parametrize(
    ("seconds", "shown", "whole"),
    [
        (0.04, "0.0 s", "0 s"),
        (59.96, "1 min 0 s", "59 s"),
        (250, "4 min 10 s", "4 min 10 s"),
        (7_500, "2 h 5 min", "2 h 5 min"),
        (273_600, "3 d 4 h", "3 d 4 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds, shown, whole):
    assert (duration(seconds), duration(seconds, whole=True)) == (shown, whole)
