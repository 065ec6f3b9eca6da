"""Which files judge of those that changed since the goal's first snapshot, by the store: content never leaves it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from clew_shared.proof.judges import (
    Patterns,
    examples_lost,
    is_data,
    is_judge,
    judges,
    matcher,
    part_of,
    signs,
    tests_within,
    with_old_tests,
)
from clew_shared.snapshots.names import quoted
from clew_shared.snapshots.store import FILES, SnapshotStore
from clew_worker.executor.snapshots.restoring import Contents

if TYPE_CHECKING:
    from collections.abc import Mapping

DIFF_CHARS = 4_000
_DIFF_FILES = 20
_NOTHING = "0" * 40
_LINK, _GITLINK = "120000", "160000"
_FILE_BYTES = 2 << 20
_ALL_BYTES = 64 << 20


class Side(NamedTuple):
    """What is at a name: a mode of git, and the object."""

    mode: str
    name: str


@dataclass
class Changes:
    """What changed between two trees, by path: `judging` judge; `mixed` are sources whose tests have an old version.

    `within` are sources that have fewer tests than before. `watches` and `odd` say what new lines of sources do, and
    which are too large to be read. `data` are other files that were there before and may be what a check compares.
    """

    all: dict[str, tuple[Side | None, Side | None]] = field(default_factory=dict)
    judging: list[str] = field(default_factory=list)
    mixed: dict[str, bytes] = field(default_factory=dict)
    within: list[str] = field(default_factory=list)
    watches: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    had_tests: bool = False

    @property
    def altered(self) -> list[str]:
        """Those that judge and were there before."""
        return [one for one in self.judging if self.all[one][0]]

    @property
    def added(self) -> list[str]:
        return [one for one in self.judging if not self.all[one][0]]


def changes(
    store: SnapshotStore, base: str, end: str, patterns: Patterns, theirs: Mapping[str, str]
) -> Changes:
    """Return what changed from one snapshot to another; raises StoreError.

    `theirs` has the tree in which a file is as someone else left it, by quoted name: it was so before.
    """
    found = Changes()
    raw = store.run("diff-tree", "-r", "-z", "--raw", "--no-renames", base, end, "--", FILES)
    fields = iter(os.fsdecode(raw).split("\0")[:-1])
    for head, path in zip(fields, fields, strict=True):
        old_mode, mode, old, new, _ = head[1:].split()
        before = Side(old_mode, old) if old != _NOTHING else None
        now = Side(mode, new) if new != _NOTHING else None
        found.all[path.removeprefix(f"{FILES}/")] = before, now
    _as_others_left(found, store, theirs)
    with contextlib.closing(Contents(store)) as contents:
        _Sorting(found, contents, patterns).sort()
    found.had_tests = bool(found.altered)
    if found.added and not found.altered:
        names = os.fsdecode(store.run("ls-tree", "-r", "-z", "--name-only", f"{base}:{FILES}"))
        found.had_tests = any(map(is_judge, names.split("\0")[:-1]))
    return found


def _as_others_left(found: Changes, store: SnapshotStore, theirs: Mapping[str, str]) -> None:
    trees: dict[str, list[str]] = {}
    for path in found.all if theirs else ():
        if tree := theirs.get(quoted(os.fsencode(path))):
            trees.setdefault(tree, []).append(path)
    for tree, paths in trees.items():
        listed = os.fsdecode(
            store.run("ls-tree", "-r", "-z", tree, "--", *(f"{FILES}/{one}" for one in paths))
        )
        left = dict[str, Side]()
        for line in listed.split("\0")[:-1]:
            head, _, path = line.partition("\t")
            mode, _, name = head.split()
            left[path.removeprefix(f"{FILES}/")] = Side(mode, name)
        for path in paths:
            found.all[path] = left.get(path), found.all[path][1]
            if left.get(path) == found.all[path][1]:
                del found.all[path]


class _Sorting:
    def __init__(self, found: Changes, contents: Contents, patterns: Patterns) -> None:
        self._found = found
        self._contents = contents
        self._patterns = patterns
        self._room = _ALL_BYTES
        self._lost = self._more = 0

    def sort(self) -> None:
        found = self._found
        for path, (before, now) in sorted(found.all.items()):
            manifest = part_of(path.rpartition("/")[2]) is not None
            if not manifest and judges(path, _mark(before), _mark(now), self._patterns):
                found.judging.append(path)
                old, new = self._read(before), self._read(now)
                self._more += max(0, tests_within(new) - tests_within(old))
                continue
            old, new = self._read(before), self._read(now)
            if manifest and judges(path, old, new, self._patterns):
                found.judging.append(path)
            elif not matcher(self._patterns.ignore)(path):
                self._take_source(path, old, new, is_new=before is None)
        if self._lost <= self._more:  # they have moved into files of tests
            found.within.clear()

    def _take_source(
        self, path: str, old: bytes | None, new: bytes | None, *, is_new: bool
    ) -> None:
        found = self._found
        if (mixed := with_old_tests(path, old, new)) is not None:
            found.mixed[path] = mixed
        elif not is_new:
            lost = max(
                tests_within(old) - tests_within(new), examples_lost(old, new) * (new is not None)
            )
            self._lost += lost
            if lost > 0:
                found.within.append(path)
        watches, odd = signs(old, new)
        if new is None and self._found.all[path][1] and not is_data(path):
            odd = "too large to be looked at"
        if watches:
            found.watches.append(f"{path}: {watches}")
        if odd:
            found.odd.append(f"{path}: {odd}")
        if not is_new and is_data(path):
            found.data.append(path)

    def _read(self, side: Side | None) -> bytes | None:
        """Return a content, None where there is none, or none that can be read in bounded time."""
        if side is None or side.mode == _GITLINK:
            return None
        data = self._contents.read_up_to(side.name, min(_FILE_BYTES, self._room))
        self._room -= len(data or b"")
        return data


def _mark(side: Side | None) -> bytes | None:
    """Return a stand-in for a content: whether there is one decides, what is in it does not."""
    return None if side is None else side.name.encode()


def diff(store: SnapshotStore, base: str, end: str, paths: list[str]) -> str:
    """Return the change of some files as git prints it, cut off; for the agent, which may need a way back."""
    if not paths:
        return ""
    names = [f"{FILES}/{path}" for path in paths[:_DIFF_FILES]]
    options = ("-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
    text = store.run("diff-tree", *options, base, end, "--", *names).decode(errors="replace")
    text = text.replace(f"a/{FILES}/", "a/").replace(f"b/{FILES}/", "b/")
    return text if len(text) <= DIFF_CHARS else f"{text[: DIFF_CHARS - 12]}\n(cut off)\n"
