"""Which goal a word means."""

import pytest

from clew_daemon.record.dependencies import meant, name_fault

NAMES = {
    "mathx-1111": "mathx",
    "mathx-2222": "mathx",
    "mathx-3333": "mathx",
    "math-tests-4444": "math-tests",
    "write-docs-5555": "",
}


def means(word, *living):
    return meant(word, NAMES, lambda goal: goal not in living)


@pytest.mark.parametrize(
    ("word", "goals"),
    [
        ("write-docs-5555", ["write-docs-5555"]),
        ("WRITE", ["write-docs-5555"]),
        ("mathx-2", ["mathx-2222"]),
        ("mathx", ["mathx-3333"]),
        ("Mathx", ["mathx-3333"]),
        ("math-", ["math-tests-4444"]),
        ("mathx-", ["mathx-3333"]),
        ("math", ["math-tests-4444"]),
        ("maths", []),
    ],
)
def test_a_word_is_an_id_a_name_or_the_beginning_of_one(word, goals):
    assert means(word) == goals


@pytest.mark.parametrize("word", ["mathx", "mathx-1111", "mathx-1"])
def test_of_goals_with_one_name_the_living_one_is_meant(word):
    assert means(word, "mathx-1111") == ["mathx-1111"]


def test_of_goals_with_one_beginning_the_living_one_is_meant_and_several_living_ones_are_ambiguous():
    assert means("math", "mathx-1111") == ["mathx-1111"]
    assert means("mat", "math-tests-4444", "mathx-2222") == ["math-tests-4444", "mathx-2222"]


def test_the_beginning_of_one_name_is_enough_though_several_goals_have_it():
    names = {goal: name for goal, name in NAMES.items() if name != "math-tests"}
    assert meant("mat", names, lambda _: True) == ["mathx-3333"]


def test_a_name_goes_before_the_beginnings_of_ids():
    names = {"tea-time-1111": "", "pour-2222": "tea"}
    assert meant("tea", names, lambda _: False) == ["pour-2222"]


@pytest.mark.parametrize("name", ["", "Tea", "-tea", "tea time", "tea/time", "t" * 65])
def test_what_cannot_be_a_name_is_told_why(name):
    assert name_fault(name)
