"""What a restored file has of the one that it replaces."""

import errno
import os
import stat

import pytest

from clew_worker.executor.snapshots.place import NamedPlace
from clew_worker.executor.snapshots.reading import blob_hash


class Objects:
    """The store with one object."""

    def __init__(self, content):
        self.content = content
        digest = blob_hash(len(content))
        digest.update(content)
        self.name = digest.hexdigest()

    def size(self, _name):
        return len(self.content)

    def read(self, _name):
        yield self.content


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
    monkeypatch.setattr(place, "_check", lambda: None)
    monkeypatch.setattr(os, "chown", chown)
    place.put((stat.S_IFREG | 0o640, objects.name))
    assert asked == [(4711, 4712)] if allowed else [(4711, 4712), (-1, 4712)]
    assert (tmp_path / "file").read_text() == "before"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
