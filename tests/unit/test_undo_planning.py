"""What is read to plan an undo, and for how long; folders that someone else made."""

import shutil

import pytest

from clew_daemon.undo.planning import planned_undo
from clew_shared.record import snapshot_events as snap
from clew_shared.snapshots.entries import Entry
from clew_shared.snapshots.plan import (
    Acted,
    Restored,
    Seen,
    above_removed,
    folders_of_others,
    plan,
)
from clew_shared.snapshots.store import SnapshotStore, StoreError, StoreSlowError

FILE, FOLDER = Entry(0o100644, "new"), Entry(0o040755, "")


def taken(*trees):
    return [(seq, snap.SnapshotTaken(tree=tree)) for seq, tree in enumerate(trees, start=1)]


def test_only_the_ends_and_what_no_one_has_watched_are_compared():
    compared = []
    steps = [Seen(1, "a"), Seen(2, "b"), Seen(3, "c", watched=False), Seen(4, "d"), Seen(5, "e")]
    plan(steps, lambda old, new: compared.append((old, new)) or {}, 1, 4)
    assert compared == [("b", "c"), ("a", "e"), ("a", "d")]


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_a_store_whose_time_is_up_starts_no_git(tmp_path):
    store = SnapshotStore(tmp_path, shutil.which("git"))
    store.make()
    store.run("write-tree")
    with pytest.raises(StoreSlowError):
        store.within(0).run("write-tree")


def test_a_plan_that_takes_too_long_is_given_up_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr("clew_daemon.undo.planning.PLAN_S", 0.0)
    store = SnapshotStore(tmp_path, "/usr/bin/git")
    with pytest.raises(StoreError, match="nothing was restored: comparing the snapshots took more"):
        planned_undo(store, taken("a", "b"), None, theirs=False)


def test_a_folder_is_someone_elses_from_its_making_until_the_goal_removes_it():
    steps = [
        Seen(1, "a"),
        Acted(2, foreign=frozenset(["mine", "gone"])),
        Acted(3, {"ours": "/", "mine/file": "new", "gone": ""}),
        Seen(4, "b", watched=False),
    ]
    made = {"seen": (None, FOLDER), "ours": (None, FOLDER)}
    assert folders_of_others(steps, lambda _old, _new: made, 1) == {"mine", "seen"}


def test_of_an_entry_that_is_removed_the_deepest_folder_of_someone_else_is_named():
    entries = [
        Restored("a/b/c/file", FILE, None),
        Restored("a/restored", None, FILE),
        Restored("ours/file", FILE, None),
    ]
    assert above_removed(entries, {"a", "a/b", "other"}) == ("a/b",)
