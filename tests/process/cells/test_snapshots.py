"""Snapshots: what is in them, what is left out and named, and what never makes one wrong."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from harness import until
from snapshots import GIT, MB

from clew_shared.snapshots.store import StoreError
from clew_shared.wire.nursery import CellLimits
from clew_worker.executor.attribution import Attribution
from clew_worker.executor.world.world import WorldWatch

pytestmark = pytest.mark.skipif(not GIT, reason="git is not installed")


def left_out(answer):
    return {one.path: one.why for one in answer.left_out}


def test_a_snapshot_holds_files_links_and_folders_as_they_are(one):
    one.sh(
        "umask 022; mkdir -p a/b empty; echo hi > a/b/file; ln -s ../a a/link; ln a/b/file hard; "
        "echo x > run; chmod 755 run; echo s > secret; chmod 600 secret; mkdir closed; chmod 700 closed"
    )
    answer = one.take()
    assert answer.files == 5
    names = ["a/b/file", "a/link", "hard", "run", "secret"]
    assert one.listed(answer.tree) == names
    assert one.content(answer.tree, "a/b/file") == b"hi\n"
    assert one.store.blob(f"{answer.tree}:modes") == b"40700 closed\n40755 empty\n0600 secret\n"


@pytest.mark.parametrize("restarted", [False, True])
def test_only_what_differs_is_written_also_by_a_restarted_executor(one, snapshots, restarted):
    one.sh("for n in 1 2 3 4 5 6 7 8; do head -c 50000 /dev/urandom > big$n; done")
    first = one.take()
    assert first.bytes > 400_000
    one = snapshots() if restarted else one
    one.sh("echo new > file")
    second = one.take(base=first.tree)
    assert 0 < second.bytes < 20_000
    assert one.listed(second.tree) == sorted([*one.listed(first.tree), "file"])


def test_any_name_is_kept(one):
    names = [b"new\nline", b"not utf\xff8", b'quo"te', b"back\\slash", b" space ", b"Case", b"case"]
    names += [b"tab\t", "é".encode(), b"-dash", b"git~1", b"x" * 255]
    for name in names:
        Path(os.fsdecode(bytes(one.workspace) + b"/" + name)).write_bytes(name)
    one.sh(r"printf '[submodule \"../x\"]\nurl = --evil\npath = x\n' > .gitmodules")
    names.append(b".gitmodules")
    tree = one.tree()
    listed = one.store.run("ls-tree", "-r", "-z", "--name-only", f"{tree}:files").split(b"\0")
    assert sorted(listed[:-1]) == sorted(names)


@pytest.mark.parametrize(("names", "name"), [("file", "file"), ("$(seq 100)", "100")])
def test_a_damaged_or_missing_object_is_noticed_where_it_is_read(one, names, name):
    one.sh(f"for name in {names}; do seq 1000 > $name; done")
    tree = one.tree()
    files = [file for file in (one.store.folder / "objects").rglob("*") if file.is_file()]
    damaged = max(files, key=lambda file: (file.suffix == ".pack", file.stat().st_size))
    whole = damaged.read_bytes()
    damaged.chmod(0o600)
    damaged.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with pytest.raises(StoreError):
        one.content(tree, name)
    damaged.unlink()
    with pytest.raises(StoreError):
        one.content(tree, name)
    one.sh("echo more > more")
    assert "more" in one.listed(one.tree())


def test_what_cannot_be_kept_is_left_out_and_named(one, variant):
    one.sh(
        "truncate -s 5G sparse; head -c 2000 /dev/zero > large; echo x > closed; "
        "chmod 000 closed; mkdir folder; echo x > folder/file; chmod 000 folder; echo x > small"
    )
    answer = one.take(max_file_bytes=1000)
    found = left_out(answer)
    assert found["sparse"] == found["large"] == "large"
    assert answer.left_out_total == len(found)
    unreadable = {name for name, why in found.items() if why == "unreadable"}
    root = variant[1] is None and os.geteuid() == 0
    assert unreadable == (set() if root else {"closed", "folder"})
    assert "small" in one.listed(answer.tree)
    one.sh("chmod 755 folder")


def test_a_file_that_keeps_changing_is_whole_or_left_out(one):
    one.hands.sh("(while :; do head -c 300000 /dev/zero | tr '\\0' a > file; done) & echo $! > pid")
    for _ in range(5):
        answer = one.take()
        if "file" in one.listed(answer.tree):
            assert set(one.content(answer.tree, "file")) <= {ord("a")}
        else:
            assert left_out(answer).get("file", "changing") == "changing"
    one.hands.sh("kill $(cat pid)")


def test_a_damaged_index_is_made_again(one, snapshots):
    one.sh("echo x > file; mkdir empty")
    tree = one.tree()
    index = one.store.folder / "index"
    whole = index.read_bytes()
    for damaged in (b"", whole[:-10], whole.replace(b"file", b"fike"), b"\xff\xfe"):
        index.write_bytes(damaged)
        assert snapshots().tree() == tree


def test_the_repositories_are_left_out_and_their_files_are_not(one):
    one.sh(
        "git init -q .; echo x > file; mkdir inner; git init -q inner; echo y > inner/file; "
        "mkdir tree; echo 'gitdir: ../.git' > tree/.git; echo z > tree/file; mkdir .GIT; echo > .GIT/x"
    )
    before = subprocess.run(
        ["ls", "-laR", "--full-time", ".git"], cwd=one.workspace, capture_output=True, check=True
    )
    assert one.listed(one.tree()) == ["file", "inner/file", "tree/file"]
    after = subprocess.run(
        ["ls", "-laR", "--full-time", ".git"], cwd=one.workspace, capture_output=True, check=True
    )
    assert before.stdout == after.stdout


def test_ignored_files_are_in_no_snapshot_by_the_rules_of_the_first(one, snapshots):
    one.sh(
        "git init -q .; printf '*.o\\n/out/\\n!keep.o\\ndata/*\\n!data/keep\\n' > .gitignore; "
        "echo local > .git/info/exclude; mkdir -p out sub data forced; echo '!b.o' > sub/.gitignore; "
        "touch a.o keep.o out/x sub/a.o sub/b.o data/x data/keep local forced/t.o; git add -f forced/t.o"
    )
    kept = [".gitignore", "data/keep", "forced/t.o", "keep.o", "sub/.gitignore", "sub/b.o"]
    assert one.listed(one.tree()) == kept
    one.sh("echo '*.tmp' > .gitignore; touch x.tmp y.o; git rm -q --cached forced/t.o")
    assert one.listed(one.tree()) == sorted([*kept, "x.tmp"])
    again = snapshots()
    again.sh("touch z.tmp z.o")
    assert again.listed(again.tree()) == sorted([*kept, "x.tmp", "z.tmp"])


def odd_git(folder, what, at="*update-index*"):
    """A git that notes in the file `began` that it writes a snapshot, and then does something else."""
    git = folder / "git"
    odd = f"touch {folder}/began; {what}"
    git.write_text(f'#!/bin/sh\ncase "$*" in {at}) {odd};; esac\nexec {GIT} "$@"\n')
    git.chmod(0o755)
    return str(git)


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("kill -9 $$", "git update-index: ended by signal 9"),
        ("head -c 9 >/dev/null; echo fatal: broken >&2; exit 1", "git update-index: broken"),
        ("exec <&-; sleep 0.1; exit 3", "git update-index: exit code 3"),
    ],
)
def test_a_git_that_fails_is_no_snapshot_and_the_next_one_is_right(snapshots, home, does, says):
    one = snapshots(git=odd_git(home / "workspace", does))
    one.sh("echo x > file")
    assert one.take().fault == says
    again = snapshots()
    assert "file" in again.listed(again.tree())


@pytest.mark.parametrize(
    ("box", "room", "says"),
    [
        ({}, {"room_bytes": 5 * MB}, "the snapshots have reached [snapshots] max_mb"),
        ({"limits": CellLimits(file_size_mb=1)}, {}, ""),  # as on a full disk
    ],
)
def test_where_there_is_no_room_there_is_no_snapshot_and_the_store_stays_usable(
    snapshots, box, room, says
):
    one = snapshots(**box)
    one.sh("echo x > file")
    tree = one.tree()
    one.sh("for n in $(seq 200); do head -c 30000 /dev/urandom > big$n; done")
    assert says in one.take(**room).fault != ""
    assert one.size() < MB
    one.sh("rm big*")
    assert one.tree(**room) == tree


@pytest.mark.parametrize("at", ["*update-index*--add*", "*write-tree*"])
def test_a_git_that_is_killed_by_a_file_that_is_cut_is_no_hindrance(snapshots, home, at):
    once = '[ -e "$0.died" ] || { touch "$0.died" "$GIT_INDEX_FILE.lock"; kill -BUS $$; }'
    one = snapshots(git=odd_git(home / "workspace", once, at))
    one.sh("echo x > file; echo y > other")
    assert {"file", "other"} <= set(one.listed(one.tree()))
    assert (home / "workspace" / "git.died").exists()


def test_git_ends_with_the_executor_that_is_killed(snapshots, home, gone, watch):
    one = snapshots(git=odd_git(home / "workspace", "exec sleep 1000"))
    one.ask()
    until((home / "workspace" / "began").exists)
    below = watch(one.hands.cell.tree())
    assert len(below) >= 2
    os.kill(one.hands.cell.pid, signal.SIGKILL)
    assert one.hands.cell.wait() == 128 + signal.SIGKILL
    assert gone(below)
    again = snapshots()
    assert "git" in again.listed(again.tree())


def test_only_a_whole_note_of_the_same_action_says_what_others_had_changed(tmp_path):
    notes, folder = tmp_path / "foreign.json", tmp_path / "work"
    folder.mkdir()
    first = Attribution(WorldWatch(str(folder), ()), notes)
    first.look()
    (folder / "mine").touch()
    first.look_before_action(7)

    def next_one():
        found = Attribution(WorldWatch(str(folder), ()), notes)
        found.anchored = True
        return found.noted, found.report().foreign, found.report().foreign_total

    assert next_one() == (7, ("mine",), 0)
    for text in ('{"foreign": ["mine"', '["mine"]', '{"foreign": [], "action": 7}]'):
        notes.write_text(text)
        assert next_one()[0] == 0
    first.report()
    first.look_before_action(8)
    assert next_one() == (8, (), 0)
