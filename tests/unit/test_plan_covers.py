"""Plans, and what a new one covers, in the shapes that models write; what is unclear covers nothing."""

import pytest

from clew_worker.agent.written import read_covers, read_plan

NAMES = ["Write tests", "Write docs", "3 more things"]


@pytest.mark.parametrize(
    ("covers", "expected"),
    [
        ([1, 3], [1, 3]),
        (["2", "#3"], [2, 3]),
        (["1. Write tests"], [1]),
        (["write docs", "3 more things"], [2, 3]),
        (2, [2]),
        ("1", [1]),
        ("all", [1, 2, 3]),
        ([2, 2, 9, 0, -1, 1.5, None, {}, "nothing"], [2]),
        (None, []),
        ({"1": True}, []),
        ([True], []),
        (["2 new tests", "3) the rest"], [3]),
    ],
)
def test_numbers_and_names_of_pending_subtasks_are_read(covers, expected):
    assert read_covers({"covers": covers}, NAMES) == expected


def test_what_is_nested_deeper_than_subtasks_is_not_lost():
    deep = {"title": "Write", "steps": ["the parser", {"steps": ["the lexer", {"step": "tests"}]}]}
    (task,) = read_plan({"tasks": [{"name": "Build", "subtasks": [deep, "Ship"]}]})
    names = ["Write: the parser", "Write: the lexer", "Write: tests", "Ship"]
    assert task["subtasks"] == [{"description": name} for name in names]
