"""Which files git ignores in a workspace: the rules of the goal's first snapshot, flattened into one file for git.

They are collected once from all .gitignore files and each repository's info/exclude, saved in the store, and read
from there ever after, with the files that git tracks although they are ignored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from clew_shared.files.durable import write_whole
from clew_shared.snapshots.store import StoreError
from clew_worker.executor.workspace import open_beneath
from clew_worker.executor.world.git import GitState

_FILE_BYTES_MAX = 1024 * 1024
_FILES_MAX = 10_000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class IgnoreRules:
    """The rules that are saved in a file. `frozen`: they were saved before; `tracked`: files that no rule is for."""

    def __init__(self, saved: Path) -> None:
        self._saved = saved
        self._exclude: dict[str, list[str]] = {}
        self._ignore: dict[str, list[str]] = {}
        self.tracked: set[str] = set()
        self.frozen = saved.exists()
        if self.frozen:
            try:
                found = json.loads(saved.read_text())
                self._exclude, self._ignore = dict(found["exclude"]), dict(found["ignore"])
                self.tracked = set(found["tracked"])
            except (OSError, ValueError, KeyError, TypeError):
                raise StoreError("the saved rules of ignored files cannot be read") from None

    def collect(self, root: int, path: Path, folders: Sequence[str], inner: Iterable[str]) -> None:
        """Take in what the folders with a .gitignore and the repositories `inner` of a workspace say."""
        if len(folders) > _FILES_MAX:
            raise StoreError(f"it has more than {_FILES_MAX} .gitignore files")
        texts = {one: _read(root, f"{one}/.gitignore".removeprefix("/")) for one in folders}
        self._ignore = {one: lines for one, text in texts.items() if (lines := _lines(text))}
        for folder in inner:
            git = GitState(path / folder)
            if lines := _lines(git.excludes()):
                self._exclude[folder] = lines
            prefix = f"{folder}/" if folder else ""
            self.tracked |= {prefix + os.fsdecode(one.rstrip(b"/")) for one in git.tracked()}

    def freeze(self, tracked: Iterable[str]) -> None:
        """Save what was collected, with the tracked files that are ignored; durable when it returns. Raises OSError."""
        self.tracked = set(tracked)
        found = {"exclude": self._exclude, "ignore": self._ignore, "tracked": sorted(self.tracked)}
        write_whole(self._saved, json.dumps(found))
        self.frozen = True

    def text(self, more: Iterable[str]) -> bytes:
        """Return all as one file of patterns, of which the last that matches decides; `more` come after all others."""
        lines = [
            flat(folder, line)
            for rules in (self._exclude, self._ignore)
            for folder in sorted(rules, key=lambda one: one.count("/") + bool(one))
            for line in rules[folder]
        ]
        return b"".join(line + b"\n" for line in [*lines, *map(os.fsencode, more)])


def _lines(text: bytes) -> list[str]:
    lines = os.fsdecode(text).removeprefix("\ufeff").split("\n")
    return [line.rstrip("\r") for line in lines if line.strip() and line[0] != "#"]


def flat(folder: str, line: str) -> bytes:
    """Return a line of the .gitignore file of a folder as one of the workspace's; b"" where it matches nothing."""
    pattern, bang = line.removeprefix("!"), line[:1] == "!"
    bare = pattern.rstrip().rstrip("/")
    if not bare:
        return b""
    if folder:
        above = re.sub(r"[*?\[\]\\ ]", r"\\\g<0>", folder).replace("\n", "?")
        pattern = f"/{above}/{pattern.removeprefix('/') if '/' in bare else f'**/{pattern}'}"
    return os.fsencode("!" * bang + pattern)


def _read(root: int, path: str) -> bytes:
    """Return the content of a .gitignore file; nothing where it is none, as git follows no link here."""
    try:
        with open(open_beneath(root, path, _READ, links=False), "rb") as file:  # noqa: PTH123 - a descriptor
            return file.read(_FILE_BYTES_MAX)
    except OSError:
        return b""
