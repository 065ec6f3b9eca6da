"""The difference between the prompts of two turns."""

from clew_daemon.reading.prompt_text import PromptMessage, prompt_difference

SYSTEM = PromptMessage("system", "You are an agent.\nGoal: x\nTurn 1")


def shown(before, after):
    found = prompt_difference(before, after)
    return [
        (one.role, one.change, [(line.change, line.text) for line in one.lines]) for one in found
    ]


def test_a_message_that_was_added_is_whole():
    added = PromptMessage("tool", "a\nb")
    assert shown([SYSTEM], [SYSTEM, added])[1] == (
        "tool",
        "added",
        [("added", "a"), ("added", "b")],
    )


def test_a_message_that_changed_shows_which_lines_did():
    later = PromptMessage("system", "You are an agent.\nGoal: x\nTurn 2")
    [(_, change, lines)] = shown([SYSTEM], [later])
    assert change == "changed"
    assert lines == [
        ("same", "You are an agent."),
        ("same", "Goal: x"),
        ("removed", "Turn 1"),
        ("added", "Turn 2"),
    ]


def test_a_very_long_message_is_not_compared_line_by_line():
    long = PromptMessage("tool", "x\n" * 3_000)
    [(_, change, lines)] = shown([PromptMessage("tool", "y\n" * 3_000)], [long])
    assert change == "changed"
    assert len(lines) == 3_000
