"""What a model says that its new plan covers, in the shapes that models write; what is unclear covers nothing."""

import pytest

from clew_shared.wire.protocol import Plan
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


def test_without_pending_subtasks_a_plan_covers_nothing():
    assert read_covers({"covers": [1, "all"]}, []) == []
    assert read_covers({"covers": "all"}, []) == []


@pytest.mark.parametrize(
    ("given", "covered"), [({}, "all"), ({"covers": []}, []), ({"covers": [2]}, [2])]
)
def test_a_replan_of_the_protocol_replaces_all_that_is_pending_unless_it_says_what(given, covered):
    task = {"description": "another way", "subtasks": [{"description": "c"}]}
    assert Plan.model_validate({"tasks": [task], "replan": "task", **given}).covered == covered
