"""The digest of the world: what changes it and what does not."""

import os
import shutil
import subprocess

import pytest

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


@pytest.fixture
def repository(watch, tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")

    def git(*args):
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *args],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    git("init", "-b", "main")
    return git


def test_staging_and_committing_change_the_world(repository, watch):
    digests = [watch.digest().digest]
    repository("add", ".")
    digests.append(watch.digest().digest)
    repository("commit", "-m", "first")
    digests.append(watch.digest().digest)
    repository("commit", "--allow-empty", "-m", "second")
    digests.append(watch.digest().digest)
    assert len(set(digests)) == 4
