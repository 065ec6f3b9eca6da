"""What is kept of an output."""

import pytest

from clew_worker.executor.commands import Capture, clean, cut


@pytest.mark.parametrize("piece", [1, 3, 7, 1000])
def test_the_pieces_in_which_it_comes_make_no_difference(piece):
    data = bytes(range(32, 127)) * 20
    whole, parts = Capture(100), Capture(100)
    whole.add(data)
    for at in range(0, len(data), piece):
        parts.add(data[at : at + piece])
    assert whole.text() == parts.text()


@pytest.mark.parametrize("limit", range(9, 25))
def test_a_cut_tears_no_character(limit):
    text = cut("aé€\N{GRINNING FACE}" * 20, limit)
    assert "\N{REPLACEMENT CHARACTER}" not in text


def test_control_characters_are_replaced_and_colours_kept():
    assert clean("a\0b\x1b[31mc\td\r\n\ud800") == "a\ufffdb\x1b[31mc\td\r\n\ufffd"
