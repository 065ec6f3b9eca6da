import pytest

from clew_shared.text.thoughts import echoes, merged, near, stem, theme


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
    table = merged({"planning": ("planen", "vorgehen"), "read_intent": (), "doubt": ("not sure",)})
    assert theme("Mein Vorgehen ist so", table) == "planning"
    assert theme("I plan", table) == "general"
    assert theme("I read the page", table) == "general"
    assert theme("I am not sure", table) == "doubt"
    assert theme("I search, not sure where", table) == "search_intent"


def test_an_entry_without_a_word_is_never_met():
    assert theme("I plan", {"empty": ("", "42")}) == "general"


def test_a_phrase_may_be_written_with_signs():
    assert theme("Let me double-check it", {"doubt": ("double-check",)}) == "doubt"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("I need to plan my approach to the search", "Let me plan the approach for my search"),
        ("Run the tests and fix the import", "Running tests, fixing the import"),
        (
            "I will look at the config and fix the parser",
            "First I should look at the config, then afterwards fix the parser",
        ),
        (
            "The tests fail because the import is missing. I should add it to the module.",
            "Since the import is missing, the tests fail. Let me add it to the module.",
        ),
        (
            "My plan is to add the missing import to the module",
            "I think the best way forward is adding the missing import to the module",
        ),
        (
            "Before sending the request, check that the server is up",
            "Check whether the server is up before sending the request",
        ),
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
        (
            "Add validation to the login form and cover it with tests in the suite",
            "Add validation to the signup form and cover it with tests in the suite",
        ),
        (
            "Look in the source folder for the definition of the handler",
            "Look in the tests folder for the definition of the handler",
        ),
        ("Start the server of the test suite", "Stop the server of the test suite"),
        (
            "Read the config, fix the parser, run the tests",
            "Read the config, fix the parser, run the tests, then write the docs",
        ),
        ("Look at the first chapter of the manual", "Look at the chapter of the manual"),
        ("Check the server before sending the mail", "Check the server after sending the mail"),
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
    assert stem("adding") == stem("added") == stem("add")
    assert stem("class") == "class"


def test_a_thought_echoes_any_of_the_earlier_ones():
    earlier = ["Look at the log of the server", "Fix the import and run the tests"]
    assert echoes("I'll run the tests and fix the import", earlier)
    assert not echoes("Fix the export and run the tests", earlier)
    assert not echoes("Fix the import and run the tests", [])


@pytest.mark.parametrize("text", ["", "Hm", "Let me see what we have here", "Fix the parser"])
def test_a_thought_of_few_words_echoes_nothing(text):
    assert not echoes(text, [text])
