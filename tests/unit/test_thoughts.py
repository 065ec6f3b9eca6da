import pytest

from clew_shared.thoughts import THEMES, Theme, near, stem, theme


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


def test_the_table_of_themes_can_be_extended():
    table: dict[Theme, tuple[str, ...]] = {**THEMES, "planning": ("planen", "vorgehen")}  # type: ignore[dict-item]
    assert theme("Mein Vorgehen ist so", table) == "planning"
    assert theme("I plan", table) == "general"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("I need to plan my approach to the search", "Let me plan the approach for my search"),
        ("Run the tests and fix the import", "Running tests, fixing the import"),
        ("same", "same"),
        ("", ""),
    ],
)
def test_a_rephrased_thought_is_near(a, b):
    assert near(a, b)
    assert near(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Run tests after changes", "Do not run tests after changes"),
        ("Read chapter 3 of the manual", "Read chapter 4 of the manual"),
        ("Read chapter one of the manual", "Read chapter two of the manual"),
        ("Open src/a.py and fix it there", "Open src/b.py and fix it there"),
        ("Look at the parser", "Look at the lexer"),
        ("Fix the parser so that the tests pass", "Fix the parser"),
        ("to be", "to do"),
        ("", "something"),
    ],
)
def test_another_number_name_negation_or_matter_is_not_near(a, b):
    assert not near(a, b)
    assert not near(b, a)


def test_inflected_words_have_one_stem():
    assert stem("tests") == stem("testing") == stem("tested") == stem("test")
    assert stem("changes") == stem("changing") == stem("change")
    assert stem("running") == stem("runs") == stem("run")
    assert stem("dependencies") == stem("dependency")
    assert stem("class") == "class"
