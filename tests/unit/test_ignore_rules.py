"""Which files are ignored: the same as for git, level by level."""

import os
import shutil
import subprocess

import pytest

from clew_worker.executor.snapshots.git import SnapshotError
from clew_worker.executor.snapshots.rules import IgnoreRules

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


def seen(folder, saved):
    """What git finds in a workspace by the rules alone."""
    rules = IgnoreRules(saved)
    if not rules.frozen:
        root = os.open(folder, os.O_PATH)
        written = [above for above in FOLDERS if (folder / above / ".gitignore").exists()]
        rules.collect(root, folder, written, [""])
        os.close(root)
        rules.freeze(())
    exclude = saved.with_name("exclude")
    exclude.write_bytes(rules.text(()))
    return listed(folder, f"--exclude-from={exclude}")


def listed(folder, rules):
    found = subprocess.run(
        [GIT, "ls-files", "-z", "--cached", "--others", rules],
        cwd=folder,
        capture_output=True,
        check=True,
        env={"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)},
    ).stdout
    return sorted(os.fsdecode(one) for one in found.split(b"\0") if one)


@pytest.mark.skipif(not GIT, reason="git is not installed")
@pytest.mark.parametrize("name", CASES)
def test_the_same_files_are_ignored_as_by_git(tmp_path, name):
    folder = tmp_path / "workspace"
    build(folder, CASES[name])
    expected = listed(folder, "--exclude-standard")
    assert seen(folder, tmp_path / "ignore.json") == expected
    assert seen(folder, tmp_path / "ignore.json") == expected, "with the rules that were saved"


def test_saved_rules_that_cannot_be_read_are_a_fault(tmp_path):
    (tmp_path / "ignore.json").write_text("{")
    with pytest.raises(SnapshotError, match="cannot be read"):
        IgnoreRules(tmp_path / "ignore.json")
