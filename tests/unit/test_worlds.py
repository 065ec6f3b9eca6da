"""What is the same: workspaces by their digest, folders by what they are, actions by their signature."""

import json
import os
import shutil
import subprocess

import pytest

from clew_shared.record.identity import Identity, of_path
from clew_shared.record.signature import signature
from clew_worker.executor.world import world
from clew_worker.executor.world.world import WorldWatch

IGNORE = (".git", "__pycache__", "*.pyc", "build/out")


@pytest.fixture
def watch(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.txt").write_text("b")
    return WorldWatch(str(tmp_path), IGNORE)


def test_the_same_files_give_the_same_digest_anywhere(watch, tmp_path):
    other = tmp_path.with_name(f"{tmp_path.name}-copy")
    shutil.copytree(tmp_path, other)
    assert WorldWatch(str(other), IGNORE).digest() == watch.digest()


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "a.txt").write_text("c"),
        lambda root: (root / "new").write_text(""),
        lambda root: (root / "a.txt").unlink(),
        lambda root: (root / "a.txt").rename(root / "z.txt"),
        lambda root: (root / "a.txt").chmod(0o755),
        lambda root: (root / "empty").mkdir(),
        lambda root: (root / "link").symlink_to("a.txt"),
        lambda root: os.mkfifo(root / "pipe"),
    ],
)
def test_a_change_changes_the_digest_and_repeating_it_does_not(watch, tmp_path, change):
    before = watch.digest()
    change(tmp_path)
    after = watch.digest()
    assert after.digest != before.digest
    assert watch.digest() == after


def test_a_change_that_keeps_size_and_times_is_seen(watch, tmp_path):
    before = watch.digest()
    info = (tmp_path / "a.txt").stat()
    (tmp_path / "a.txt").write_text("x")
    os.utime(tmp_path / "a.txt", ns=(info.st_atime_ns, info.st_mtime_ns))
    assert watch.digest() != before


@pytest.mark.parametrize(
    "path", ["x.pyc", "__pycache__/y", ".agent_context/state.json", "build/out/z", "sub/x.pyc"]
)
def test_ignored_paths_are_no_part_of_the_world(watch, tmp_path, path):
    (tmp_path / "build").mkdir()
    before = watch.digest()
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("x")
    assert watch.digest() == before


def test_a_links_target_counts_and_is_not_followed(watch, tmp_path):
    (tmp_path / "link").symlink_to("/etc")
    before = watch.digest()
    assert before.entries == 4
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("/usr")
    assert watch.digest() != before


def test_too_many_entries_are_said(watch, tmp_path, monkeypatch):
    monkeypatch.setattr(world, "ENTRIES_MAX", 2)
    assert watch.digest().partial
    assert watch.digest().entries == 2


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_staging_and_committing_change_the_world(watch, tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    commit, digests = ["commit", "-q", "--allow-empty", "-m", "x"], set()
    for command in (["init", "-q"], ["add", "."], commit, commit):
        subprocess.run([*git, *command], check=True)
        digests.add(watch.digest().digest)
    assert len(digests) == 4


DISK, OTHER_DISK = os.makedev(8, 1), os.makedev(8, 2)
BEFORE = Identity(dev=DISK, ino=7, birth_ns=5, boot="one")


def test_a_folder_that_was_renamed_is_the_same(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    before = of_path(folder)
    folder.rename(tmp_path / "b")
    assert of_path(tmp_path / "b").is_same(before)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"ino": 8}, False),
        ({"birth_ns": 6}, False),
        ({"birth_ns": None}, False),
        ({"dev": OTHER_DISK}, False),  # another file system, mounted there now
        ({"dev": OTHER_DISK, "boot": "two"}, True),  # devices were numbered in another order
        ({"boot": "two"}, True),
        ({"boot": "two", "birth_ns": None}, True),  # a kernel that does not tell it, or now does
        ({"boot": "two", "birth_ns": 6}, False),
        ({"ino": 8, "dev": OTHER_DISK, "boot": "two"}, False),
    ],
)
def test_what_makes_two_sightings_one_folder(change, same):
    assert BEFORE.is_same(BEFORE.model_copy(update=change)) is same


def test_it_is_the_name_and_canonical_json():
    assert signature("run", {"b": 1, "a": [True, None]}) == 'run::{"a":[true,null],"b":1}'


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": {"x": 1, "y": 2}, "b": 3}, {"b": 3, "a": {"y": 2, "x": 1}}, True),
        *(({key: "./a/"}, {key: "a"}, True) for key in ("path", "file_path", "cwd", "out_dir", "config_file")),
        ({"s": "a  \n  b\t\r\n"}, {"s": "a\n  b\n"}, True),  # white space at the ends of lines
        ({"s": " a"}, {"s": "a"}, False),
        ({"n": 5.0}, {"n": 5}, True),
        ({"n": 5}, {"n": 5.5}, False),
        ({"n": True}, {"n": 1}, False),
    ],
)  # fmt: skip
def test_arguments_are_the_same_however_they_are_written(one, other, same):
    assert (signature("t", one) == signature("t", other)) is same


def test_paths_are_normalised_against_the_workspace():
    for path in [
        "src/a.py",
        "./src/a.py",
        "src//a.py",
        "src/x/../a.py",
        "/w/s/src/a.py",
        "//w/s/src/a.py",
    ]:
        assert signature("t", {"path": path}, "/w/s") == 't::{"path":"src/a.py"}', path


def test_two_hundred_characters_are_shown_and_more_are_a_digest():
    assert "x" * 200 in signature("t", {"s": "x" * 200})
    shown = json.loads(signature("t", {"s": "x" * 201}).partition("::")[2])["s"]
    assert shown.startswith("sha256:")
    assert len(shown) == len("sha256:") + 16
