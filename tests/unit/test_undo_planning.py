"""For how long a store is read to plan an undo, and which folders stay although they become empty."""

import shutil

import pytest

from clew_daemon.undo.planning import planned_undo
from clew_shared.record import snapshot_events as snap
from clew_shared.snapshots.store import SnapshotStore, StoreError, StoreSlowError


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
    rows = [(seq, snap.SnapshotTaken(tree=tree)) for seq, tree in enumerate("ab", start=1)]
    with pytest.raises(StoreError, match="nothing was restored: reading the snapshots took more"):
        planned_undo(store, rows, None, theirs=False)
