"""Which files are ignored: the same as for git, level by level."""

import os
import shutil
import subprocess

import pytest

from clew_worker.executor.snapshots import walk as walking
from clew_worker.executor.snapshots.budget import SnapshotError
from clew_worker.executor.snapshots.rules import IgnoreRules
from clew_worker.executor.snapshots.walk import Listing, Walk
from clew_worker.executor.world.ignored import Ignored

GIT = shutil.which("git")
CASES = {
    "names": {".gitignore": "*.o\nbuild\n/top\nsub/x\n"},
    "folders only": {".gitignore": "build/\nx/\n*/\n!sub/\n"},
    "negation": {".gitignore": "*.o\n!a.o\nsub/*\n!sub/x\n"},
    "everything but": {".gitignore": "*\n!*/\n!*.c\n"},
    "nothing below an ignored folder": {".gitignore": "sub/\n!sub/a.o\n!sub/deep/x\n"},
    "deeper wins": {
        ".gitignore": "*.o\n",
        "sub/.gitignore": "!a.o\n",
        "sub/deep/.gitignore": "*.o\n",
    },
    "anchored below": {"sub/.gitignore": "/x\ndeep/x\n"},
    "stars": {".gitignore": "**/deep/*.c\nsub/**/x\nbuild/**\n!build/x\n"},
    "any depth": {".gitignore": "sub/**/\n"},
    "odd lines": {".gitignore": "\ufeffx\r\n# comment\n\\#hash\n\\!bang\n!\n[z-a]\n/\n\ntop  \n"},
    "classes": {".gitignore": "[a-b].[co]\n?op\n*[!o]\n"},
    "exclude": {".git/info/exclude": "*.c\nx\n", ".gitignore": "!a.c\n"},
}
FILES = ("top", "x", "a.o", "b.o", "a.c", "#hash", "!bang")
FOLDERS = ("", "sub", "sub/deep", "build", "x.d/x", "sub/build")


def build(folder, written):
    subprocess.run([GIT, "init", "-q", folder], check=True)
    for above in FOLDERS:
        (folder / above).mkdir(parents=True, exist_ok=True)
        for name in FILES:
            if not (folder / above / name).is_dir():
                (folder / above / name).write_text("x")
    for name, text in written.items():
        (folder / name).write_text(text)


class Unhurried:
    """A budget that never ends."""

    def check(self):
        pass


def seen(folder, saved):
    root = os.open(folder, os.O_PATH)
    try:
        rules = IgnoreRules(folder, saved)
        found = Walk(root, Ignored(()), rules, Listing(), Unhurried()).look(1000, None)
        rules.freeze()
    finally:
        os.close(root)
    return sorted(
        f"{above}/{name}" if above else name
        for above, names in found.unread.items()
        for name in names
    )


@pytest.mark.skipif(not GIT, reason="git is not installed")
@pytest.mark.parametrize("name", CASES)
def test_the_same_files_are_ignored_as_by_git(tmp_path, name):
    folder = tmp_path / "workspace"
    build(folder, CASES[name])
    listed = subprocess.run(
        [GIT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=folder,
        capture_output=True,
        check=True,
        env={"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(tmp_path)},
    ).stdout
    expected = sorted(os.fsdecode(one) for one in listed.split(b"\0") if one)
    assert seen(folder, tmp_path / "ignore.json") == expected
    assert seen(folder, tmp_path / "ignore.json") == expected, "with the rules that were saved"


def test_saved_rules_that_cannot_be_read_are_a_fault(tmp_path):
    (tmp_path / "ignore.json").write_text("{")
    with pytest.raises(SnapshotError, match="cannot be read"):
        IgnoreRules(tmp_path, tmp_path / "ignore.json")


def test_more_entries_than_the_limit_are_a_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(walking, "ENTRIES_MAX", 10)
    folder = tmp_path / "workspace"
    folder.mkdir()
    for n in range(11):
        (folder / str(n)).touch()
    with pytest.raises(SnapshotError, match="more than 10 entries"):
        seen(folder, tmp_path / "ignore.json")
