"""Restoring entries from a snapshot: everything back as it was, and nothing of anyone else's overwritten."""

from dataclasses import replace

import pytest
from snapshots import GIT, picture

from clew_shared.snapshots.entries import LEFT_OUT, Reverted

pytestmark = pytest.mark.skipif(not GIT, reason="git is not installed")


BEFORE = (
    "mkdir -p a/b 'closed folder' gone/deeper; echo 1 > a/b/file; ln -s a link; echo x > run; chmod 755 run; "
    "echo s > secret; chmod 600 secret; chmod 700 'closed folder'; echo 2 > 'closed folder/in'; "
    "echo d > gone/deeper/x; echo f > swapped; mkdir other; echo o > other/in; ln -s nowhere turned; "
    "echo 4 > 'new\nline'"
)
AFTER = (
    "echo 2 > a/b/file; rm link; ln -s run link; chmod 644 run; echo t >> secret; rm -r gone; "
    "rm swapped; mkdir -p swapped/sub; echo n > swapped/sub/x; rm -r other; echo o > other; "
    "rm turned; echo t > turned; mkdir -p fresh/one/two; echo n > fresh/one/two/x; "
    "rm 'new\nline'; echo x > 'closed folder/more'; mkdir own; echo y > own/z"
)


def test_everything_comes_back_as_it_was_and_forth_again(one):
    one.sh(BEFORE)
    before, base = picture(one.workspace), one.tree()
    one.sh(AFTER)
    after, now = picture(one.workspace), one.tree()
    answer = one.back(base)
    assert (answer.left, answer.faults) == ((), {})
    assert picture(one.workspace) == before
    assert one.tree() == base
    assert one.back(now).left == ()
    assert picture(one.workspace) == after


@pytest.mark.parametrize("cut", [3, 9, 18])
def test_an_undo_that_was_cut_off_is_completed_by_the_same_request(one, cut):
    one.sh(BEFORE)
    before, base = picture(one.workspace), one.tree()
    one.sh(AFTER)
    entries = one.entries(one.tree(), base)
    one.restore(entries[:cut])
    drafts = (".clew-undo.tmp", "a/b/.clew-undo.tmp")
    for name in drafts:
        (one.workspace / name).write_text("half")
    assert one.restore(entries).left == ()
    assert picture(one.workspace) == before


CHANGED_SINCE = {
    "another content": ("echo 1 > f", "echo 2 > f", "echo 3 > f"),
    "the same size": ("echo 1 > f", "echo 2 > f", "sleep 0.01; echo 9 > f"),
    "another mode": ("echo 1 > f", "echo 2 > f", "chmod 600 f"),
    "a link instead": ("echo 1 > f", "echo 2 > f", "rm f; ln -s x f"),
    "another target": ("ln -s 1 f", "rm f; ln -s 2 f", "rm f; ln -s 3 f"),
    "a folder instead": ("echo 1 > f", "echo 2 > f", "rm f; mkdir f; echo x > f/x"),
    "a FIFO instead": ("echo 1 > f", "echo 2 > f", "rm f; mkfifo f"),
    "removed": ("echo 1 > f", "echo 2 > f", "rm f"),
    "made again": ("echo 1 > f", "rm f", "echo 3 > f"),
    "changed, and it was new": (":", "echo 2 > f", "echo 3 > f"),
    "huge": ("echo 1 > f", "echo 2 > f", "truncate -s 900G f"),
}


@pytest.mark.parametrize("what", CHANGED_SINCE)
def test_what_has_changed_since_is_left(one, what):
    before, after, since = CHANGED_SINCE[what]
    entries = one.changed(before, after)
    one.sh(since)
    present = states(one.workspace)
    answer = one.restore(entries)
    assert (answer.restored, answer.left) == ((), ("f",))
    assert states(one.workspace) == present


def states(folder):
    """Name, inode and times of everything: nothing was touched where they are equal."""
    found = {}
    for path in folder.rglob("*"):
        info = path.lstat()
        found[path.name] = (info.st_ino, info.st_mtime_ns, info.st_ctime_ns, info.st_mode)
    return found


def test_nothing_is_restored_through_a_link_in_the_place_of_a_folder(one, home):
    entries = one.changed(
        "mkdir d; echo 1 > d/f; mkdir e", "echo 2 > d/f; echo new > d/new; rmdir e"
    )
    outside = home / "private" / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    (outside / "f").write_text("2\n")
    (outside / "f").chmod(0o644)
    (outside / "new").write_text("new\n")
    one.sh(f"rm -r d; ln -s {outside} d")
    answer = one.restore(entries)
    assert "d/f" in answer.left
    assert {path.name: path.read_text() for path in outside.iterdir()} == {
        "f": "2\n",
        "new": "new\n",
    }


def test_no_entry_leads_out_of_the_workspace_or_into_a_repository(one):
    (entry,) = one.changed("echo 1 > f", "echo 2 > f")
    for name in ("../f", "/f", "a/../../f", "", ".", "a//f", ".git/config", "a/.GIT/hooks/x"):
        bad = replace(entry, name=name, present=None)
        answer = one.restore((bad,))
        assert answer.faults == {name: "not a path of a snapshot"}, name


def test_a_content_that_is_not_in_the_store_leaves_its_file_and_restores_the_others(one):
    f, g = one.changed("echo 1 > f; echo 1 > g", "echo 2 > f; echo 2 > g")
    lost = replace(f, wanted=f.wanted._replace(id="0" * 40))
    answer = one.restore((lost, g))
    assert answer.faults == {"f": "the store does not have it"}
    assert answer.restored == ("g",)


def test_nothing_is_written_outside_while_a_folder_is_swapped_for_a_link(one, home):
    outside = home / "private" / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    one.sh("mkdir d; for n in $(seq 20); do echo 1 > d/f$n; done")
    base = one.tree()
    one.sh("for n in $(seq 20); do echo 2 > d/f$n; done")
    now = one.tree()
    loop = f"while :; do mv d real; ln -s {outside} d; rm d; mv real d; done"
    one.sh(f"({loop}) >/dev/null 2>&1 & echo $! > ../private/pid")
    for _ in range(10):
        one.restore(one.entries(now, base))
        one.restore(one.entries(base, now))
    one.hands.sh("kill $(cat ../private/pid)")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("side", ["present", "wanted"])
def test_what_was_left_out_of_a_snapshot_is_never_restored(one, side):
    one.sh("echo x > file")
    sides = {"present": None, "wanted": None} | {side: LEFT_OUT}
    answer = one.restore((Reverted(name="file", **sides),))
    assert answer.faults == {"file": "it was left out of the snapshot"}
    assert (one.workspace / "file").read_text() == "x\n"
