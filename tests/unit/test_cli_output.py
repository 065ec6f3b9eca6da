"""Lines on a terminal: wrapped between words, never cut, in columns where there is room."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from clew_daemon.reading.output import columns, width_of, wrapped
from clew_daemon.reading.sanitize import counted, duration

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


@settings(deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4), st.integers(20, 90))
def test_no_cell_of_a_table_is_lost(rows, width):
    for row, line in zip(
        rows, columns([[(cell, "") for cell in row] for row in rows]), strict=True
    ):
        assert "".join("".join(parts(line, width)).split()) == "".join("".join(row).split())


def test_a_longer_line_goes_on_indented_after_its_last_whole_word():
    assert parts([("    reason: ", "bold"), ("one two three four five", "")], 24) == [
        "    reason: one two",
        "        three four five",
    ]


def test_a_word_that_is_too_long_is_left_whole_for_the_terminal_to_break():
    path = "/a/path/that/is/longer/than/the/terminal"
    assert parts([(f"see {path} for more", "")], 20) == ["see", f"    {path}", "    for more"]


def test_a_command_to_copy_is_not_broken():
    asked = '- say what to do: `clew feedback build-thing-9f6f "…"`'
    assert parts([(asked, "")], 40) == [
        "- say what to do:",
        '    `clew feedback build-thing-9f6f "…"`',
    ]
    told = "until 12:00:00; now: clew continue build-thing-9f6f"
    assert parts([(told, "")], 40)[-1].strip() == "clew continue build-thing-9f6f"


def test_the_lines_of_a_text_are_wrapped_each_for_itself():
    assert parts([("one two\n\n  three four", "")], 11) == [
        *("one two", "", "  three", "     four"),
    ]


ROWS = [[("id", ""), ("status", ""), ("what it is doing", "")], [("a-1", ""), ("x", ""), ("-", "")]]


def test_a_last_cell_is_wrapped_in_its_own_column_where_there_is_room():
    long = [[("a-1", ""), ("completed, unverified", ""), ("word " * 9, "")]]
    found = parts(columns(long)[0], 60)
    assert found == [
        "a-1  completed, unverified  word word word word word word",
        " " * 28 + "word word word",
    ]


def test_a_last_cell_without_room_begins_a_line_of_its_own():
    long = [[("a-1", ""), ("completed, unverified", ""), ("word " * 9, "")]]
    assert parts(columns(long)[0], 40) == [
        "a-1  completed, unverified",
        "    word word word word word word word",
        "    word word",
    ]


def test_cells_keep_together_where_a_row_is_wrapped():
    row = [[("a-long-name-1", ""), ("2 min 3 s", ""), ("completed, unverified", ""), ("x", "")]]
    assert parts(columns(row)[0], 30) == [
        "a-long-name-1  2 min 3 s",
        "    completed, unverified",
        "    x",
    ]


def test_columns_stand_below_each_other_beside_wide_characters():
    rows = columns([[("漢字", ""), ("a", "")], [("abc", ""), ("b", "")]])
    assert ["".join(text for text, _ in row) for row in rows] == ["漢字  a", "abc   b"]
    assert width_of("漢字") == 4


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


def test_a_count_agrees_with_its_noun():
    assert [counted(n, "goal") for n in (0, 1, 2)] == ["0 goals", "1 goal", "2 goals"]
    assert counted(2, "strategy", "strategies") == "2 strategies"
