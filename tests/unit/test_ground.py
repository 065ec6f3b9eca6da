"""What stands where a workspace should be: the very folder, another one, something else, or nothing."""

import pytest

from clew_daemon.processes import workspace_guard
from clew_shared.record.identity import of_path
from clew_shared.record.state import State


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


def entered(place, known=None, *, make=False):
    found = workspace_guard.enter(str(place), known, make=make)
    assert isinstance(found, workspace_guard.WorkspaceGuard), found
    return found


def swap(place):
    """Put another folder in the place of one, which stays beside it."""
    place.rename(place.with_name("aside"))
    place.mkdir()


def test_the_folder_that_is_known_is_entered(place):
    known = of_path(place)
    found = entered(place, known)
    assert found.identity.is_same(known)
    assert not found.made
    assert found.stands()
    assert found.missing() is None


def test_another_folder_is_not_entered_and_both_are_described(place):
    known = of_path(place)
    swap(place)
    found = workspace_guard.enter(str(place), known, make=True)
    assert isinstance(found, workspace_guard.Missing)
    assert found.stranger == of_path(place)
    assert f"inode {known.ino}" in found.detail
    assert f"inode {place.stat().st_ino}" in found.detail
    asked = found.question(State(goal_id="goal-1"))
    assert asked.text.count("`clew continue goal-1`") == 2


def test_nothing_is_made_where_that_is_not_asked_for(tmp_path):
    found = workspace_guard.enter(str(tmp_path / "a" / "ws"), None, make=False)
    assert isinstance(found, workspace_guard.Missing)
    assert found.gone
    assert list(tmp_path.iterdir()) == []


def told_of(**what):
    return State(goal_id="g", **what)


def test_a_person_accepts_what_they_were_told_of_and_nothing_else(place):
    known = of_path(place)
    swap(place)
    stranger = of_path(place)
    path = str(place)
    assert workspace_guard.accepted(path, told_of(workspace=known, stranger=stranger)) == (
        stranger,
        False,
    )
    assert workspace_guard.accepted(path, told_of(workspace=known, stranger=known)) == (None, False)
    assert workspace_guard.accepted(path, told_of(workspace=known, gone=True)) == (None, False)
    place.rmdir()
    assert workspace_guard.accepted(path, told_of(workspace=known, stranger=stranger)) == (
        None,
        False,
    )
    assert workspace_guard.accepted(path, told_of(workspace=known, gone=True)) == (None, True)
