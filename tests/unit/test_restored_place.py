"""What a restored file has of the one that it replaces, and what is saved at the very moment in which it is."""

import errno
import os
import stat

import pytest

from clew_worker.executor.snapshots import place
from clew_worker.executor.snapshots.place import ChangedError, NamedPlace
from clew_worker.executor.world.contents import blob_id


class Objects:
    """The store with one object."""

    def __init__(self, content):
        self.content = content
        self.name = blob_id(content)

    def size(self, _name):
        return len(self.content)

    def read(self, _name):
        return self.content


@pytest.fixture
def folder(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize("allowed", [True, False])
def test_a_restored_file_has_the_owner_of_what_it_replaces_where_that_is_allowed(
    folder, tmp_path, monkeypatch, allowed
):
    asked = []

    def chown(_name, uid, gid, **_):
        asked.append((uid, gid))
        if not allowed:
            raise OSError(errno.EPERM, "not allowed")

    found = os.stat

    def stat_of(path, **options):
        info = found(path, **options)
        return os.stat_result((*info[:4], 4711, 4712, *info[6:])) if path == "file" else info

    (tmp_path / "file").write_text("changed")
    objects = Objects(b"before")
    place = NamedPlace(folder, "file", objects)
    place._info = stat_of("file", dir_fd=folder, follow_symlinks=False)
    monkeypatch.setattr(
        "clew_worker.executor.snapshots.place.replace_by",
        lambda at, draft, name, _: os.rename(draft, name, src_dir_fd=at, dst_dir_fd=at),
    )
    monkeypatch.setattr(os, "chown", chown)
    place.put((stat.S_IFREG | 0o640, objects.name))
    assert asked == [(4711, 4712)] if allowed else [(4711, 4712), (-1, 4712)]
    assert (tmp_path / "file").read_text() == "before"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


@pytest.fixture
def saved_at_that_moment(tmp_path, monkeypatch):
    """Have a person save the file, by writing another one over it, between the last look and the change."""
    looks = place.check

    def check(*args):
        looks(*args)
        (tmp_path / "new").write_text("mine")
        (tmp_path / "new").replace(tmp_path / "file")

    monkeypatch.setattr(place, "check", check)


@pytest.mark.parametrize("restored", [True, False])
def test_what_is_saved_in_the_moment_of_the_change_is_there_afterwards(
    folder, tmp_path, saved_at_that_moment, restored
):
    (tmp_path / "file").write_text("the goal's")
    objects = Objects(b"before")
    place = NamedPlace(folder, "file", objects)
    with pytest.raises(ChangedError):
        place.put((stat.S_IFREG | 0o640, objects.name) if restored else None)
    assert (tmp_path / "file").read_text() == "mine"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_without_an_exchange_in_one_step_a_file_is_replaced_by_a_rename(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setattr("clew_worker.sandbox.kernel._renameat2", None)
    (tmp_path / "file").write_text("changed")
    objects = Objects(b"before")
    NamedPlace(folder, "file", objects).put((stat.S_IFREG | 0o640, objects.name))
    assert (tmp_path / "file").read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
