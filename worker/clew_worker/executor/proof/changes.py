"""Which files judge of those that changed since the goal's first snapshot, by the store: content never leaves it."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from clew_shared.proof import judges as rules
from clew_shared.snapshots.entries import Change, Entry
from clew_shared.snapshots.names import quoted
from clew_shared.snapshots.plan import listed
from clew_shared.snapshots.store import FILES, SnapshotStore
from clew_shared.wire.executor import LookRequest, ViewRequest
from clew_worker.executor.snapshots.restoring import StoredContents

DIFF_CHARS = 4_000
_DIFF_FILES = 20
_FILE_BYTES = 2 << 20
_ALL_BYTES = 64 << 20

Read = Callable[[Entry | None], bytes | None]


@dataclass
class Changes:
    """What changed between two trees, by path: `judging` judge; `mixed` are sources whose tests have an old version.

    `within` are sources that have fewer tests than before. `watches` and `odd` say what new lines of sources do, and
    which are too large to be read. `data` are other files that were there before and may be what a check compares.
    The mode of an entry is git's.
    """

    all: dict[str, Change] = field(default_factory=dict)
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

    def sort(self, patterns: rules.Patterns, read: Read) -> None:
        """Find out which judge, and what the others do."""
        lost = more = 0
        for path, sides in sorted(self.all.items()):
            old, new = map(read, sides)
            is_part = rules.part_of(path.rpartition("/")[2]) is not None
            # Of a whole file that judges, whether there is one decides; what is in it does not.
            was, now = (old, new) if is_part else (one and one.id.encode() for one in sides)
            if rules.judges(path, was, now, patterns):
                self.judging.append(path)
                more += 0 if is_part else max(0, rules.tests_within(new) - rules.tests_within(old))
            elif not rules.matcher(patterns.ignore)(path):
                lost += self._take_source(path, old, new)
        if lost <= more:  # they have moved into files of tests
            self.within.clear()

    def _take_source(self, path: str, old: bytes | None, new: bytes | None) -> int:
        """Take in a file that does not judge; return how many tests it has lost."""
        before, now = self.all[path]
        lost = 0
        if (mixed := rules.with_old_tests(path, old, new)) is not None:
            self.mixed[path] = mixed
        elif before:
            examples = 0 if new is None else rules.examples_lost(old, new)
            lost = max(rules.tests_within(old) - rules.tests_within(new), examples)
            self.within += [path] if lost > 0 else []
        watches, odd = rules.signs(old, new)
        if new is None and now and not rules.is_data(path):
            odd = "too large to be looked at"
        self.watches += [f"{path}: {watches}"] if watches else []
        self.odd += [f"{path}: {odd}"] if odd else []
        self.data += [path] if before and rules.is_data(path) else []
        return lost


def changes(store: SnapshotStore, request: LookRequest | ViewRequest) -> Changes:
    """Return what changed from one snapshot to another; raises StoreError."""
    found, base, end = Changes(), request.base, request.end
    fields = iter(store.names("diff-tree", "-r", "--raw", "--no-renames", base, end, "--", FILES))
    list_of = listed(store)
    for head, path in zip(fields, fields, strict=True):
        old_mode, mode, old, new, _ = head[1:].split()
        name = path.removeprefix(f"{FILES}/")
        before, now = _entry(old_mode, old), _entry(mode, new)
        if tree := request.theirs.get(quoted(os.fsencode(name))):
            # As someone else left it: it was so before.
            left = list_of(tree).get(quoted(os.fsencode(name)))
            before = Entry(left.git_mode, left.id) if left and left.id else None
        if before != now:
            found.all[name] = before, now
    with contextlib.closing(StoredContents(store)) as contents:
        room = _ALL_BYTES

        def read(entry: Entry | None) -> bytes | None:
            """Return a content, None where there is none, or none that can be read in bounded time."""
            nonlocal room
            if entry is None or not (stat.S_ISREG(entry.mode) or stat.S_ISLNK(entry.mode)):
                return None
            data = contents.read_up_to(entry.id, min(_FILE_BYTES, room))
            room -= len(data or b"")
            return data

        found.sort(rules.Patterns(request.judges, request.ignore, request.may_change), read)
    found.had_tests = bool(found.altered)
    if found.added and not found.altered:
        found.had_tests = any(
            map(rules.is_judge, store.names("ls-tree", "-r", "--name-only", f"{base}:{FILES}"))
        )
    return found


def _entry(mode: str, name: str) -> Entry | None:
    return Entry(int(mode, 8), name) if name.strip("0") else None


def diff(store: SnapshotStore, base: str, end: str, paths: list[str]) -> str:
    """Return the change of some files as git prints it, cut off; for the agent, which may need a way back."""
    if not paths:
        return ""
    names = [f"{FILES}/{path}" for path in paths[:_DIFF_FILES]]
    options = ("-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
    text = store.run("diff-tree", *options, base, end, "--", *names).decode(errors="replace")
    text = text.replace(f"a/{FILES}/", "a/").replace(f"b/{FILES}/", "b/")
    return text if len(text) <= DIFF_CHARS else f"{text[: DIFF_CHARS - 12]}\n(cut off)\n"
