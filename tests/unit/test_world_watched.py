"""What the digest of a large workspace falls back to: floods, limits, file systems that do not tell, hostile trees."""

import os
from pathlib import Path

import pytest

from clew_worker.executor.world import contents, tree
from clew_worker.executor.world.world import WorldWatch


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(tree, "WATCHED_FROM", 0)
    for name in ("a", "a/b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    return tmp_path


@pytest.fixture
def watched(root):
    watch = WorldWatch(str(root), ("skipped",))
    watch.digest()
    yield watch
    watch.close()


def afresh(root):
    """What a watch says that has seen nothing before."""
    watch = WorldWatch(str(root), ("skipped",))
    world = watch.digest()
    watch.close()
    return world


@pytest.fixture
def calls(monkeypatch):
    """Count folders that are opened."""
    opened = []
    real = tree.Tree._open
    monkeypatch.setattr(
        tree.Tree,
        "_open",
        lambda self, path, folder: opened.append(path) or real(self, path, folder),
    )
    return opened


def test_nothing_is_looked_at_where_nothing_was_touched(watched, calls):
    watched.digest(full=False)
    calls.clear()
    before = watched.digest(full=False)
    assert not calls
    assert watched.digest(full=True) == before
    assert sorted(calls) == ["", "a/", "a/b/", "c/"]


def test_only_the_folder_that_was_touched_is_looked_at(watched, calls, root):
    (root / "a" / "b" / "f").write_text("x")
    assert watched.digest(full=False) == afresh(root)
    assert calls[0] == "a/b/"


def test_a_flood_of_events_leads_to_a_look_at_everything(watched, root):
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(most // 2 + 1):
        os.utime(root / "a" / "f", ns=(number, number))
        os.utime(root / "c" / "f", ns=(number, number))
    (root / "a" / "b" / "f").write_text("behind the flood")
    assert watched.digest(full=False) == afresh(root)
    (root / "a" / "b" / "f").write_text("after it")
    assert watched.digest(full=False) == afresh(root)


@pytest.fixture
def same_stat(monkeypatch):
    """No stat tells that a file has changed."""
    monkeypatch.setattr(contents, "is_settled", lambda *_: True)
    monkeypatch.setattr(contents, "_stamp", lambda dev, ino, *_: b"%d %d" % (dev, ino))


@pytest.mark.usefixtures("same_stat")
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("folder", ["", "a", "a/b"])
@pytest.mark.parametrize("anew", [True, False])
def test_a_written_file_is_read_again_where_its_folders_times_were_set_too(
    root, folder, order, anew
):
    (root / "f").write_text("f")
    watch = WorldWatch(str(root), ())
    before = watch.digest()
    if order == "before":
        os.utime(root / folder, (1, 1))
    (root / folder / "f").write_text("x")
    if order == "after":
        os.utime(root / folder, (1, 1))
    assert watch.digest(full=anew) != before
    watch.close()
