"""What a worker's control group is told, and what is read from it; folders stand in for the kernel's."""

import pytest

from clew_daemon.processes import cgroups
from clew_daemon.processes.cgroups import Cgroups, WorkerGroup


@pytest.fixture
def group(tmp_path):
    return WorkerGroup(tmp_path, ("memory", "pids"))


def test_the_kernel_is_told_the_memory_of_the_whole_worker_and_told_again_when_it_changes(
    group, tmp_path
):
    assert group.limit(300)
    assert (tmp_path / "memory.max").read_text() == str(300 << 20)
    assert (tmp_path / "memory.oom.group").read_text() == "1"
    (tmp_path / "memory.max").write_text("told once")
    assert group.limit(300)
    assert (tmp_path / "memory.max").read_text() == "told once"
    assert group.limit(200)
    assert (tmp_path / "memory.max").read_text() == str(200 << 20)


@pytest.mark.parametrize("goal", ["../../x", "a/b", "\0", "ä" * 300, ".", ""])
def test_a_goals_name_cannot_lead_out_of_the_daemons_groups(goal, tmp_path, monkeypatch):
    monkeypatch.setattr(cgroups, "_enable", lambda folder, wanted: ())
    made = Cgroups(tmp_path).worker(goal, 1)
    assert made is not None
    assert made.path.parent == tmp_path
