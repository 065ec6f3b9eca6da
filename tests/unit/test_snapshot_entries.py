"""What differs between two snapshots, also where one of them has left something out."""

import shutil
import stat

import pytest

from clew_shared.snapshots.comparison import comparison
from clew_shared.snapshots.entries import LEFT_OUT, Entry, changes, modes_text
from clew_shared.snapshots.names import unquoted
from clew_shared.snapshots.store import SnapshotStore

GIT = shutil.which("git") or ""
FILE = stat.S_IFREG | 0o644
pytestmark = pytest.mark.skipif(not GIT, reason="git is not installed")


@pytest.fixture
def store(tmp_path):
    made = SnapshotStore(tmp_path / "store", GIT)
    made.make()
    return made


def blob(store, text):
    return store.run("hash-object", "-w", "--stdin", data=text).decode().strip()


def snapshot(store, files=(), **modes):
    """Write a snapshot of files that hold their own names, and return its tree."""
    lines = [f"100644 blob {blob(store, modes_text(modes))}\tmodes"]
    if files:
        inside = {name: blob(store, unquoted(name)) for name in files}
        lines.append(f"040000 tree {tree(store, inside)}\tfiles")
    return make_tree(store, lines)


def tree(store, files):
    """Write a tree of files, at most one folder deep."""
    folders, lines = {}, []
    for name, content in files.items():
        folder, _, last = name.rpartition("/")
        if folder:
            folders.setdefault(folder, {})[last] = content
        else:
            lines.append(f"100644 blob {content}\t{name}")
    lines += [f"040000 tree {tree(store, inside)}\t{name}" for name, inside in folders.items()]
    return make_tree(store, lines)


def make_tree(store, lines):
    return store.run("mktree", data="\n".join(lines).encode()).decode().strip()


def test_what_was_left_out_and_fits_now_is_not_new(store):
    old, new = snapshot(store, big=0), snapshot(store, ["big"])
    assert changes(store, old, new) == {"big": (LEFT_OUT, Entry(FILE, blob(store, b"big")))}
    assert changes(store, new, old) == {"big": (Entry(FILE, blob(store, b"big")), LEFT_OUT)}


def test_what_is_left_out_is_in_no_diff(store):
    old, new = snapshot(store, big=0, gone=0), snapshot(store, ["big", "other"])
    with comparison(store, old, changes(store, old, new)) as compared:
        assert [one.path for one in compared.files() if not one.left_out] == ["other"]
