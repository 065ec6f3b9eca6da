"""What an undo restores is on record in an order that works, and a damaged record restores nothing."""

import stat

import pytest

from clew_daemon.undo.planning import restoration, unpacked
from clew_shared.snapshots.entries import Entry
from clew_shared.snapshots.plan import Restored
from clew_shared.snapshots.store import StoreError

FILE = Entry(stat.S_IFREG | 0o644, "1" * 40)
FOLDER = Entry(stat.S_IFDIR | 0o700, "")


def test_the_deepest_is_removed_first_and_folders_are_made_before_files():
    work = restoration(
        "tree",
        [
            Restored("a", None, FILE),
            Restored("a/b", FOLDER, None),
            Restored("a/b/c", FILE, None),
            Restored("z", None, FOLDER),
        ],
    )
    assert [one.name for one in work.entries] == ["a/b/c", "a/b", "z", "a"]
    assert unpacked(work.packed()) == work


@pytest.mark.parametrize("body", [None, b"", b"[", b"{}", b"[1, 2]", b'["tree", [["a"]]]'])
def test_a_record_that_is_missing_or_damaged_is_refused(body):
    with pytest.raises(StoreError, match="missing or damaged"):
        unpacked(body)
