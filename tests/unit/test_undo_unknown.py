"""What undo leaves because nothing is known of it."""

import pytest

from clew_shared.snapshots.entries import LEFT_OUT, Entry
from clew_shared.snapshots.plan import Acted, Seen, plan

OLD, NEW = Entry(0o100644, "old"), Entry(0o100644, "new")
FOLDER = Entry(0o040755, "")


def found(changes, own, *, watched=True, **acted):
    steps = [Seen(1, "old"), Acted(2, own, **acted), Seen(3, "new", watched=watched)]
    result = plan(steps, lambda old, new: changes if old != new else {}, 1)
    return [one.name for one in result.restore], {one.name: one.reason for one in result.left}


def test_a_file_that_was_left_out_before_the_goal_made_it_small_is_left():
    assert found({"big": (LEFT_OUT, NEW)}, {"big": "new"}) == ([], {"big": "left_out"})


def test_a_file_that_was_left_out_and_is_gone_is_named():
    assert found({"big": (LEFT_OUT, None)}, {"big": ""}) == ([], {"big": "left_out"})


@pytest.mark.parametrize("name", ["closed/file", '"closed/a\\nb"'])
def test_what_is_below_a_folder_that_could_not_be_read_is_left(name):
    changes = {"closed": (LEFT_OUT, FOLDER), name: (None, NEW), "open/file": (None, NEW)}
    own = {"closed": "/", name: "new", "open/file": "new"}
    restore, left = found(changes, own)
    assert restore == ["open/file"]
    assert left == {"closed": "left_out", name: "left_out"}


def test_a_file_that_was_not_read_is_restored_only_where_the_executor_saw_everything_since():
    changes, own = {"file": (OLD, NEW)}, {"file": "?"}
    assert found(changes, own) == (["file"], {})
    assert found(changes, own, watched=False) == ([], {"file": "unknown"})


def test_after_an_action_that_was_lost_only_what_is_as_an_action_left_it_is_restored():
    changes = {"file": (OLD, NEW), "other": (OLD, NEW), "third": (OLD, NEW)}
    own = {"file": "new", "third": "else"}
    restore, left = found(changes, own, watched=False, lost=True)
    assert restore == ["file"]
    assert left == {"other": "unknown", "third": "unknown"}


def test_a_file_that_is_not_as_the_goal_left_it_while_no_one_watched_is_shared():
    changes, own = {"file": (OLD, NEW)}, {"file": "else"}
    assert found(changes, own, watched=False) == ([], {"file": "shared"})


def test_a_name_that_someone_else_has_touched_is_left_whatever_the_goal_did_afterwards():
    changes, own = {"file": (OLD, NEW)}, {"file": "new"}
    assert found(changes, own, foreign=frozenset(["file"])) == ([], {"file": "shared"})
