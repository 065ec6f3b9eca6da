"""The prompt of a turn as lines, with what changed since the turn before."""

from clew_daemon.reading.prompt_text import (
    InspectedPrompt,
    PromptMessage,
    prompt_difference,
    turn_lines,
)

LONG = "\n".join(f"line {n}" for n in range(20))


def shown(before, after, *, turn=2, whole=False, note=""):
    messages = tuple(prompt_difference(before, after))
    prompt = InspectedPrompt(turn, 3, note, messages, (("system", 5, 20),), ("tool plan",))
    return ["".join(text for text, _ in line) for line in turn_lines(prompt, whole=whole)]


def test_a_message_that_stayed_is_one_line_and_all_of_it_if_asked_for():
    same = [PromptMessage("system", LONG)]
    assert shown(same, same)[1:3] == [
        "== system (same, 20 lines)",
        "-- size (tokens are estimated)",
    ]
    assert shown(same, same, whole=True)[2] == "  line 0"


def test_of_a_changed_message_the_change_is_shown_with_what_is_around_it():
    later = LONG.replace("line 9", "another")
    lines = shown([PromptMessage("user", LONG)], [PromptMessage("user", later)])
    assert lines[1:11] == [
        "== user (changed, 21 lines)",
        "  … 7 lines as before",
        "  line 7",
        "  line 8",
        "- line 9",
        "+ another",
        "  line 10",
        "  line 11",
        "  … 8 lines as before",
        "-- size (tokens are estimated)",
    ]


def test_what_a_model_or_a_tool_wrote_is_cleaned():
    hostile = PromptMessage("tool", "a\x1b[2J\u202eb [bold]")
    assert "+ a\\x1b[2J\\u202eb [bold]" in shown([], [hostile])
