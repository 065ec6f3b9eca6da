"""Which files git ignores in a workspace: .gitignore files at every level, info/exclude, and what is tracked anyway.

The rules are those of the goal's first snapshot: collected then, saved in the store, and read from there ever after.
Patterns are compiled by `pathspec`; which of them decides is as in gitignore(5): the deepest file that has a
match, in it the last match; below an ignored folder only what is tracked.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from clew_shared.files.durable import sync
from clew_worker.executor.snapshots.budget import SnapshotError
from clew_worker.executor.snapshots.folders import split
from clew_worker.executor.world import git

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_FILE_BYTES_MAX = 1024 * 1024
_FILES_MAX = 10_000
_FOLDER_MARK = "(?P<ps_d>/)"  # pathspec's pattern for any folder
_BOM = "\ufeff"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _Pattern(NamedTuple):
    """A line of a .gitignore file; `ignores` is False for a negated one."""

    regex: re.Pattern[str]
    ignores: bool
    of_folders: bool

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Return whether it matches this path itself, and not only a folder above it."""
        if not self.of_folders:
            found = self.regex.search(path)
            return found is not None and not found.groupdict().get("ps_d")
        if not is_folder:
            return False
        found = self.regex.search(path + "/")
        if found is None:
            return False
        return self.regex.pattern == _FOLDER_MARK or found.end() == len(path) + 1


Chain = tuple[tuple[int, tuple[_Pattern, ...]], ...]
"""What applies in one folder, the list that decides first at the front: how long the path of its folder is, and it."""


class IgnoreRules:
    """The rules of one workspace at `root`. `frozen`: read from the store, and no longer collected."""

    def __init__(self, root: Path, saved: Path) -> None:
        self._root = root
        self._saved = saved
        self._lines: dict[str, dict[str, list[str]]] = {"ignore": {}, "exclude": {}}
        self._compiled: dict[tuple[str, str], tuple[_Pattern, ...]] = {}
        self._tracked: set[str] = set()
        self._above_tracked: set[str] = set()
        self._used: set[str] = set()
        self.frozen = saved.exists()
        if self.frozen:
            self._load()

    def enter(self, folder: str, at: int, names: Iterable[str], above: Chain) -> Chain:
        """Return what applies in a folder, open as `at`; `above` applies in the one above it."""
        if not self.frozen:
            self._collect(folder, at, names)
        length = len(folder) + 1 if folder else 0
        for kind in ("exclude", "ignore"):
            if patterns := self._patterns(kind, folder):
                above = _inserted(above, length, patterns, first=kind == "ignore")
        return above

    def ignores(self, chain: Chain, path: str, *, is_folder: bool) -> bool:
        """Return whether a path is ignored by the rules that apply in its folder."""
        for length, patterns in chain:
            for pattern in reversed(patterns):
                if pattern.matches(path[length:], is_folder=is_folder):
                    return pattern.ignores
        return False

    def is_tracked(self, path: str) -> bool:
        """Return whether git tracks a path, so that no rule applies to it."""
        if path not in self._tracked:
            return False
        self._used.add(path)
        return True

    def leads_to_tracked(self, path: str) -> bool:
        """Return whether something in this folder is tracked."""
        return path in self._above_tracked

    def freeze(self) -> None:
        """Save what was collected; durable when it returns. Raises OSError."""
        if self.frozen:
            return
        draft = self._saved.with_suffix(".new")
        draft.write_text(json.dumps({**self._lines, "tracked": sorted(self._used)}))
        sync(draft)
        draft.replace(self._saved)
        sync(self._saved.parent)
        self.frozen = True
        self._track(self._used)

    def _load(self) -> None:
        try:
            saved: dict[str, Any] = json.loads(self._saved.read_text())
            self._lines = {kind: dict(saved[kind]) for kind in ("ignore", "exclude")}
            self._track({str(path) for path in saved["tracked"]})
        except (OSError, ValueError, KeyError, TypeError):
            raise SnapshotError("the saved rules of ignored files cannot be read") from None

    def _track(self, paths: set[str]) -> None:
        self._tracked = paths
        self._above_tracked = set()
        for path in paths:
            self._note_above(path)

    def _note_above(self, path: str) -> None:
        above = split(path)[0]
        while above and above not in self._above_tracked:
            self._above_tracked.add(above)
            above = split(above)[0]

    def _collect(self, folder: str, at: int, names: Iterable[str]) -> None:
        """Take in what a folder says itself: its .gitignore, and its repository if it has one."""
        if len(self._lines["ignore"]) + len(self._lines["exclude"]) > _FILES_MAX:
            raise SnapshotError(f"it has more than {_FILES_MAX} .gitignore files")
        if ".gitignore" in names:
            self._take("ignore", folder, _read(at, ".gitignore"))
        if ".git" in names:
            place = self._root / folder
            self._take("exclude", folder, git.excludes(place))
            prefix = folder + "/" if folder else ""
            for raw in git.tracked(place):
                path = prefix + os.fsdecode(raw.rstrip(b"/"))
                self._tracked.add(path)
                self._note_above(path)

    def _take(self, kind: str, folder: str, text: bytes) -> None:
        lines = os.fsdecode(text).removeprefix(_BOM).split("\n")
        if found := [line.rstrip("\r") for line in lines if line.strip() and line[0] != "#"]:
            self._lines[kind][folder] = found

    def _patterns(self, kind: str, folder: str) -> tuple[_Pattern, ...]:
        lines = self._lines[kind].get(folder)
        if lines is None:
            return ()
        if (kind, folder) not in self._compiled:
            self._compiled[kind, folder] = tuple(filter(None, map(_compiled, lines)))
        return self._compiled[kind, folder]


def _inserted(above: Chain, length: int, patterns: tuple[_Pattern, ...], *, first: bool) -> Chain:
    """Add a folder's patterns: a .gitignore before everything, info/exclude after the files of its repository."""
    return ((length, patterns), *above) if first else (*above, (length, patterns))


def _compiled(line: str) -> _Pattern | None:
    """Compile one line; None where git would not take it either."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        found = GitIgnoreSpecPattern(f"{line.rstrip()}*/" if _is_deep(line) else line)
    except (ValueError, re.error):
        return None
    if found.regex is None or found.include is None:
        return None
    return _Pattern(found.regex, bool(found.include), line.rstrip().endswith("/"))


def _is_deep(line: str) -> bool:
    """Return whether a pattern means the folders at any depth of another, which pathspec takes for that folder too."""
    return line.rstrip().endswith("/**/")


def _read(at: int, name: str) -> bytes:
    """Return the content of a file; nothing where it is none, as git follows no link here."""
    try:
        fd = os.open(name, _READ, dir_fd=at)
    except OSError:
        return b""
    with os.fdopen(fd, "rb") as file:
        try:
            return file.read(_FILE_BYTES_MAX)
        except OSError:
            return b""
