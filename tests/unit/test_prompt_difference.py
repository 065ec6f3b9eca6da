"""The difference between the prompts of two turns."""

from clew_daemon.reading.prompt_text import prompt_difference


def test_a_very_long_message_is_not_compared_line_by_line():
    long = ("tool", "x\n" * 3_000)
    [found] = prompt_difference([("tool", "y\n" * 3_000)], [long])
    assert found.change == "changed"
    assert len(found.lines) == 3_000
