"""Control groups: whose a group is to divide, and what a worker's is told; folders stand in for the kernel's."""

import os

import pytest

from clew_daemon.processes import cgroups
from clew_daemon.processes.cgroups import Cgroups, WorkerGroup


@pytest.fixture
def group(tmp_path):
    """A folder that looks like a group whose parent is one, too."""
    group = tmp_path / "above" / "own"
    group.mkdir(parents=True)
    for folder in (group, group.parent):
        for name in ("cgroup.procs", "cgroup.subtree_control", "cgroup.kill"):
            (folder / name).touch()
    return group


@pytest.mark.parametrize("by", ["", "its manager", "systemd's mark", "a container's view"])
def test_a_group_is_delegated_by_a_sign_and_not_for_being_writable(group, monkeypatch, by):
    if by == "systemd's mark":
        monkeypatch.setattr(os, "getxattr", lambda path, name: b"1")
    if by == "a container's view":  # it is the root there
        (group.parent / "cgroup.procs").unlink()
    why_not = cgroups.why_not_delegated(group, lambda asked: by == "its manager" and asked == group)
    assert (why_not == "") == bool(by)
    assert by or "not delegated" in why_not


@pytest.fixture
def worker(tmp_path):
    return WorkerGroup(tmp_path, ("memory", "pids"))


def test_the_kernel_is_told_the_memory_of_the_whole_worker_and_told_again_when_it_changes(
    worker, tmp_path
):
    assert worker.limit(300)
    assert (tmp_path / "memory.max").read_text() == str(300 << 20)
    assert (tmp_path / "memory.oom.group").read_text() == "1"
    (tmp_path / "memory.max").write_text("told once")
    assert worker.limit(300)
    assert (tmp_path / "memory.max").read_text() == "told once"
    assert worker.limit(200)
    assert (tmp_path / "memory.max").read_text() == str(200 << 20)


@pytest.mark.parametrize("goal", ["../../x", "a/b", "\0", "ä" * 300, ".", ""])
def test_a_goals_name_cannot_lead_out_of_the_daemons_groups(goal, tmp_path, monkeypatch):
    monkeypatch.setattr(cgroups, "_enable", lambda folder, wanted: ())
    made = Cgroups(tmp_path).worker(goal, 1)
    assert made is not None
    assert made.path.parent == tmp_path
