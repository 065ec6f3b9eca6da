"""Changes as git shows them: renames, counts of lines, and a unified diff. The store is only read.

git compares the old snapshot with an index, in a temporary file, that has these changes and no others.
"""

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from clew_shared.snapshots.entries import LEFT_OUT, Change, Changes
from clew_shared.snapshots.names import quoted, unquoted
from clew_shared.snapshots.store import FILES, SnapshotStore, StoreError
from clew_shared.text.words import changes

_OPTIONS = ("--cached", "--find-renames", "--no-ext-diff", "--no-textconv")
_SCRATCH, _LEFT_AFTER_S = "clew-diff-", 86_400.0
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

FileStatus = Literal["added", "modified", "deleted", "renamed", "mode"]


class ChangedFile(NamedTuple):
    """A file or symlink that differs, by quoted name, and by how many lines.

    `old_path` is that of a renamed file, else "". `left_out`: a snapshot does not have it, so nothing else is known of
    it. `modes` are its `st_mode` before and after, 0 for nothing or not known.
    """

    path: str
    old_path: str = ""
    status: FileStatus = "modified"
    added: int = 0
    removed: int = 0
    binary: bool = False
    left_out: bool = False
    modes: tuple[int, int] = (0, 0)

    @property
    def how(self) -> str:
        """How it changed, in words, as in `+3 -1`."""
        if self.status == "mode":
            return " -> ".join(f"{stat.S_IMODE(mode):04o}" for mode in self.modes)
        if self.left_out:
            return "left out of the snapshot"
        return "binary" if self.binary else f"+{self.added} -{self.removed}"


def total(files: Sequence[ChangedFile]) -> str:
    """Return how much was changed in all, as in `2 files, +3 -1`."""
    added, removed = sum(one.added for one in files), sum(one.removed for one in files)
    return changes(len(files), added, removed) if files else "no changes"


@dataclass(frozen=True)
class Comparison:
    """Changes, and what git compares: the tree `old` with the index of `store`."""

    store: SnapshotStore
    changes: Changes
    old: str

    def files(self) -> list[ChangedFile]:
        """Return the changes sorted by name, a renamed file once; raises StoreError."""
        counts = {one.path: one for one in self._counts()}
        renamed = {one.old_path for one in counts.values()}
        return [
            _described(change, counts.get(path) or ChangedFile(path))
            for path, change in sorted(self.changes.items())
            if path in counts or path not in renamed
        ]

    def _counts(self) -> Iterator[ChangedFile]:
        """Yield the files and symlinks that differ in more than git's mode."""
        said = self.store.run("diff-index", *_OPTIONS, "--numstat", "-z", self.old)
        fields = iter(said.split(b"\0")[:-1])
        for head in fields:
            added, removed, name = head.split(b"\t", 2)
            old = b"" if name else next(fields)
            path, old_path = quoted(name or next(fields)), quoted(old) if old else ""
            binary = added == b"-"
            lines = (0, 0) if binary else (int(added), int(removed))
            yield ChangedFile(path, old_path, "modified", *lines, binary)

    @contextlib.contextmanager
    def patch(self) -> Iterator[Iterator[bytes]]:
        """Run git and yield the lines of its unified diff; git is ended with the block. Raises StoreError."""
        with self.store.started("diff-index", *_OPTIONS, "--patch", self.old) as git:

            def lines() -> Iterator[bytes]:
                yield from git.stdout or ()
                if code := git.wait():
                    raise StoreError(f"git diff-index: exit code {code}")

            try:
                yield lines()
            finally:
                git.kill()


def _described(change: Change, counted: ChangedFile) -> ChangedFile:
    before, after = change
    status: FileStatus = "renamed" if counted.old_path else "added"
    if before and not counted.old_path:
        status = "modified" if after else "deleted"
        if after and (before.id, stat.S_IFMT(before.mode)) == (after.id, stat.S_IFMT(after.mode)):
            status = "mode"
    return counted._replace(
        status=status,
        left_out=LEFT_OUT in change,
        modes=(before.mode if before else 0, after.mode if after else 0),
    )


@contextlib.contextmanager
def comparison(store: SnapshotStore, tree: str, changes: Changes) -> Iterator[Comparison]:
    """Prepare changes since a snapshot for git to compare, but for what was left out; raises StoreError, OSError."""
    _remove_leftovers()
    with tempfile.TemporaryDirectory(prefix=_SCRATCH) as folder:
        scratch = replace(store, index=f"{folder}/index")
        has_files = bool(tree) and bool(store.run("ls-tree", tree, FILES))
        old = f"{tree}:{FILES}" if has_files else EMPTY_TREE
        scratch.run("read-tree", old if has_files else "--empty")
        lines = [_line(name, change) for name, change in changes.items() if LEFT_OUT not in change]
        # What goes comes first: a file may have come in the place of a folder.
        scratch.run("update-index", "-z", "--index-info", data=b"".join(sorted(lines)))
        yield Comparison(scratch, changes, old)


def _remove_leftovers() -> None:
    """Remove what killed commands have left: this user's folders, a day old, since another container may use one."""
    for path in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            if found.st_uid == os.geteuid() and found.st_mtime < time.time() - _LEFT_AFTER_S:
                shutil.rmtree(path, ignore_errors=True)


def _line(name: str, change: Change) -> bytes:
    after = change[1]
    if after is None:
        return b"0 %s\t%s\0" % (b"0" * 40, unquoted(name))
    return b"%o %s\t%s\0" % (after.git_mode, after.id.encode(), unquoted(name))
