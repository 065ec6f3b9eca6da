"""Where this process is in the tree of control groups, and whether that place is its own to divide."""

import os

import pytest

from clew_daemon.processes import cgroups as tree


@pytest.fixture
def group(tmp_path):
    """A folder that looks like a group whose parent is one, too."""
    group = tmp_path / "above" / "own"
    group.mkdir(parents=True)
    for folder in (group, group.parent):
        for name in ("cgroup.procs", "cgroup.subtree_control", "cgroup.kill"):
            (folder / name).touch()
    return group


def unasked(group):
    """A user's manager that knows nothing of the group."""
    return False


def test_a_writable_group_of_the_session_is_not_taken_for_delegated(group):
    assert "not delegated" in tree.why_not_delegated(group, unasked)


def test_a_group_that_the_users_manager_calls_delegated_is(group):
    assert tree.why_not_delegated(group, lambda asked: asked == group) == ""


def test_a_group_that_systemd_has_marked_is_delegated(group, monkeypatch):
    monkeypatch.setattr(os, "getxattr", lambda path, name: b"1")
    assert tree.why_not_delegated(group, unasked) == ""


def test_the_root_of_a_containers_view_is_delegated(group):
    (group.parent / "cgroup.procs").unlink()
    assert tree.why_not_delegated(group, unasked) == ""
