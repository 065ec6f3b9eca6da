"""Which files git ignores in a workspace: the rules of the goal's first snapshot, flattened into one file for git.

They are collected once from all .gitignore files and each repository's info/exclude, saved in the store, and read
from there ever after, with the files that git tracks although they are ignored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clew_shared.files.durable import sync
from clew_shared.snapshots.store import StoreError
from clew_worker.executor.workspace import open_beneath
from clew_worker.executor.world import git

_FILE_BYTES_MAX = 1024 * 1024
_FILES_MAX = 10_000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class IgnoreRules:
    """The rules that are saved in a file. `frozen`: they were saved before; `tracked`: files that no rule is for."""

    def __init__(self, saved: Path) -> None:
        self._saved = saved
        self._lines: dict[str, dict[str, list[str]]] = {"exclude": {}, "ignore": {}}
        self.tracked: set[str] = set()
        self.frozen = saved.exists()
        if self.frozen:
            self._load()

    def collect(self, root: int, path: Path, folders: Iterable[str], inner: Iterable[str]) -> None:
        """Take in what the folders with a .gitignore and the repositories `inner` of a workspace say."""
        for folder in folders:
            if len(self._lines["ignore"]) >= _FILES_MAX:
                raise StoreError(f"it has more than {_FILES_MAX} .gitignore files")
            self._take("ignore", folder, _read(root, f"{folder}/.gitignore".removeprefix("/")))
        for folder in inner:
            place = path / folder
            self._take("exclude", folder, git.excludes(place))
            prefix = f"{folder}/" if folder else ""
            names = (os.fsdecode(name.rstrip(b"/")) for name in git.tracked(place))
            self.tracked.update(prefix + name for name in names)

    def freeze(self, tracked: Iterable[str]) -> None:
        """Save what was collected, with the tracked files that are ignored; durable when it returns. Raises OSError."""
        self.tracked = set(tracked)
        draft = self._saved.with_suffix(".new")
        draft.write_text(json.dumps({**self._lines, "tracked": sorted(self.tracked)}))
        sync(draft)
        draft.replace(self._saved)
        sync(self._saved.parent)
        self.frozen = True

    def text(self, more: Iterable[str]) -> bytes:
        """Return all as one file of patterns, of which the last that matches decides; `more` come after all others."""
        lines = [
            flat(folder, line)
            for kind in ("exclude", "ignore")
            for folder in sorted(self._lines[kind], key=lambda one: one.count("/") + bool(one))
            for line in self._lines[kind][folder]
        ]
        return b"".join(line + b"\n" for line in [*lines, *map(os.fsencode, more)])

    def _take(self, kind: str, folder: str, text: bytes) -> None:
        lines = os.fsdecode(text).removeprefix("\ufeff").split("\n")
        if found := [line.rstrip("\r") for line in lines if line.strip() and line[0] != "#"]:
            self._lines[kind][folder] = found

    def _load(self) -> None:
        try:
            saved: dict[str, Any] = json.loads(self._saved.read_text())
            self._lines = {kind: dict(saved[kind]) for kind in ("exclude", "ignore")}
            self.tracked = {str(path) for path in saved["tracked"]}
        except (OSError, ValueError, KeyError, TypeError):
            raise StoreError("the saved rules of ignored files cannot be read") from None


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
