"""What a model says that its new plan covers, in the shapes that models write; what is unclear covers nothing."""

import pytest

from clew_worker.agent.plans import read_covers

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
