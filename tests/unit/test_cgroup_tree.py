"""Where this process is in the tree of control groups, and whether that place is its own to divide."""

import os

import pytest

from clew_daemon.processes import cgroups as tree

UNIFIED = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" + UNIFIED.replace(
    "/sys/fs/cgroup ", "/sys/fs/cgroup/unified "
)
BOUND = "41 31 0:38 /docker/1f /mnt/a\\040b rw master:3 - cgroup2 cgroup2 rw\n"


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


@pytest.mark.parametrize(
    ("mountinfo", "found"),
    [
        (UNIFIED, [("/", "/sys/fs/cgroup")]),
        (HYBRID, [("/", "/sys/fs/cgroup/unified")]),
        (BOUND, [("/docker/1f", "/mnt/a b")]),
        ("20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", []),
    ],
)
def test_mounts_of_cgroup2_are_found_among_all_others(mountinfo, found):
    assert [(root, str(place)) for root, place in tree._mounts(mountinfo)] == found


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


def test_the_root_of_the_machine_is_not(group):
    (group.parent / "cgroup.procs").unlink()
    (group / "cgroup.kill").unlink()
    assert "root of the machine" in tree.why_not_delegated(group, unasked)


def test_a_group_that_is_delegated_but_read_only_cannot_be_used(group, monkeypatch):
    (group.parent / "cgroup.procs").unlink()
    monkeypatch.setattr(os, "access", lambda path, mode: path.name != "cgroup.procs")
    assert tree.why_not_delegated(group, unasked) == f"{group / 'cgroup.procs'} is not writable"


def test_counts_of_events_are_read_by_name(tmp_path):
    events = tmp_path / "memory.events"
    events.write_text("low 0\noom 3\noom_kill 2\noom_group_kill 1\n")
    assert tree._counted(events, "oom_kill") == 2
    assert tree._counted(tmp_path / "absent", "oom_kill") == 0
