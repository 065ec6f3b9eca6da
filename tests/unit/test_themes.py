import pytest

from clew_shared.text.themes import theme


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I need to plan", "planning"),
        ("Let me plan my approach", "planning"),
        ("Planning to search", "planning"),
        ("Two strategies are left", "planning"),
        ("He needs to go", "planning"),
        ("Time to synthesize what we know", "synthesis"),
        ("Combining both gives the total", "synthesis"),
        ("Summaries of the chapters", "synthesis"),
        ("Searching the archive", "search_intent"),
        ("I look for the capital", "search_intent"),
        ("Looking for the capital", "search_intent"),
        ("Reading it now", "read_intent"),
        ("The articles are long", "read_intent"),
        ("Next page", "read_intent"),
        ("The answer is 42", "general"),
        ("", "general"),
    ],
)
def test_a_theme_is_told_by_words_and_their_inflections(text, expected):
    assert theme(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The planet Mars is red",
        "A plane lands; plants grow; the explanation is plain",
        "It is already done and ready",
        "A thread spreads, bread",
        "Research is done",
        "Findings were sent to the homepage",
        "I need a hammer, look here",
        "They reproach him",
    ],
)
def test_a_word_inside_another_word_is_no_theme(text):
    assert theme(text) == "general"
