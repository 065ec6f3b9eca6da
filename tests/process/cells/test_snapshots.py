"""Snapshots: what is in them, what is left out and named, and what never makes one wrong."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from snapshots import GIT, Snapshots, make_store

pytestmark = pytest.mark.skipif(not GIT, reason="git is not installed")


@pytest.fixture
def snapshots(executor, home):
    """Start an executor whose goal has a store."""

    def start(**box):
        store = make_store(home)
        hands = executor(store=str(store.folder), git=GIT, **box)
        return Snapshots(hands, home / "workspace", store)

    return start


def write(folder, name, content="x\n"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o644)


def test_a_snapshot_holds_files_links_and_folders_as_they_are(snapshots):
    one = snapshots()
    assert (
        one.hands.sh(
            "umask 022; mkdir -p a/b empty; echo hi > a/b/file; ln -s ../a a/link; ln a/b/file hard; "
            "echo x > run; chmod 755 run; echo s > secret; chmod 600 secret; mkdir closed; chmod 700 closed"
        ).result
        == "success"
    )
    answer = one.take()
    assert (answer.fault, answer.files) == ("", 5)
    assert one.listed(answer.tree) == [
        "a/b/file",
        "a/link",
        "closed",
        "empty",
        "hard",
        "run",
        "secret",
    ]
    assert one.content(answer.tree, "a/b/file") == b"hi\n"
    assert one.store.blob(f"{answer.tree}:modes") == b"40700 closed\n40755 empty\n0600 secret\n"


def test_nothing_changed_is_the_same_snapshot_and_costs_nothing(snapshots):
    one = snapshots()
    write(one.workspace, "file")
    first, second = one.take(), one.take()
    assert first.tree == second.tree
    assert second.bytes == 0
    assert len(list((one.store.folder / "refs" / "snapshots").iterdir())) == 1
