"""Changes as git shows them: renames, counts of lines, and a unified diff. The store is only read.

git compares two trees that hold nothing but these changes. They are written to a folder of their own, which goes by the
store for everything else.
"""

from __future__ import annotations

import contextlib
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from clew_shared.snapshots.entries import LEFT_OUT, as_seen, git_mode
from clew_shared.snapshots.names import quoted, unquoted
from clew_shared.snapshots.store import SnapshotStore, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_shared.snapshots.entries import Change, Changes, Entry

_RENAMES = ("-r", "--find-renames", "--no-ext-diff", "--no-textconv")
_READ_BYTES = 1 << 16


FileStatus = Literal["added", "modified", "deleted", "renamed", "mode"]


class ChangedFile(NamedTuple):
    """A file, symlink or empty folder that differs, by quoted name, and by how many lines.

    `old_path` is that of a renamed file, else "". `left_out`: a snapshot does not have it, so nothing else is known of
    it. `modes` are its `st_mode` before and after, 0 for nothing or not known.
    """

    path: str
    old_path: str = ""
    status: FileStatus = "modified"
    added: int = 0
    removed: int = 0
    binary: bool = False
    folder: bool = False
    left_out: bool = False
    modes: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class _ScratchStore(SnapshotStore):
    """A store that writes its objects and its index to the folder `scratch`."""

    scratch: Path

    def command(self, *args: str) -> list[str]:
        options = ("-c", "core.fsync=none", "-c", "core.quotePath=false")
        return super().command(*options, *args)

    def environment(self) -> dict[str, str]:
        objects = str(self.folder / "objects").replace("\\", "\\\\").replace('"', '\\"')
        return super().environment() | {
            "GIT_OBJECT_DIRECTORY": str(self.scratch / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{objects}"',
            "GIT_INDEX_FILE": str(self.scratch / "index"),
        }

    def tree(self, entries: dict[str, Entry | None]) -> str:
        """Write a tree of files and symlinks and return its name; raises StoreError."""
        lines = [
            b"%06o %s\t%s\0" % (git_mode(entry.mode), entry.id.encode(), unquoted(name))
            for name, entry in entries.items()
            if entry is not None and entry.id
        ]
        self.run("read-tree", "--empty")
        self.run("update-index", "-z", "--index-info", data=b"".join(lines))
        return self.run("write-tree", "--missing-ok").decode().strip()


@dataclass(frozen=True)
class Comparison:
    """Changes, and the two sides of them as trees."""

    store: _ScratchStore
    changes: Changes
    old: str
    new: str

    def files(self) -> list[ChangedFile]:
        """Return the changes sorted by name, a renamed file once; raises StoreError."""
        counts = {one.path: one for one in self._counts()}
        renamed = {one.old_path for one in counts.values()}
        return [
            _described(change, counts.get(path) or ChangedFile(path))
            for path, change in sorted(as_seen(self.changes).items())
            if path in counts or path not in renamed
        ]

    def _counts(self) -> Iterator[ChangedFile]:
        """Yield the files and symlinks that differ in more than git's mode."""
        options = (*_RENAMES, "--numstat", "-z")
        fields = iter(self.store.run("diff-tree", *options, self.old, self.new).split(b"\0")[:-1])
        for head in fields:
            added, removed, name = head.split(b"\t", 2)
            old = b"" if name else next(fields)
            path, old_path = quoted(name or next(fields)), quoted(old) if old else ""
            binary = added == b"-"
            lines = (0, 0) if binary else (int(added), int(removed))
            yield ChangedFile(path, old_path, "modified", *lines, binary)

    @contextlib.contextmanager
    def patch(self) -> Iterator[Iterator[bytes]]:
        """Run git and yield its unified diff piece by piece; git is ended with the block. Raises StoreError."""
        try:
            git = subprocess.Popen(
                self.store.command("diff-tree", *_RENAMES, "--patch", self.old, self.new),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self.store.folder,
                env=self.store.environment(),
            )
        except OSError as error:
            raise StoreError(f"git diff-tree: {error.strerror}") from error
        with git:
            try:
                yield _pieces(git)
            finally:
                git.kill()


def _described(change: Change, counted: ChangedFile) -> ChangedFile:
    before, after = change
    left_out = LEFT_OUT in change
    status: FileStatus = "modified"
    if counted.old_path:
        status = "renamed"
    elif before is None:
        status = "added"
    elif after is None:
        status = "deleted"
    elif before.id == after.id and stat.S_IFMT(before.mode) == stat.S_IFMT(after.mode):
        status = "mode"
    return counted._replace(
        status=status,
        folder=not left_out and not any(entry and entry.id for entry in change),
        left_out=left_out,
        modes=(before.mode if before else 0, after.mode if after else 0),
    )


def _pieces(git: subprocess.Popen[bytes]) -> Iterator[bytes]:
    assert git.stdout is not None  # noqa: S101 - a pipe
    while piece := git.stdout.read1(_READ_BYTES):  # type: ignore[attr-defined]
        yield piece
    if code := git.wait():
        raise StoreError(f"git diff-tree: exit code {code}")


@contextlib.contextmanager
def comparison(store: SnapshotStore, changes: Changes) -> Iterator[Comparison]:
    """Prepare changes for git to compare, except of what a snapshot left out; raises StoreError, OSError. Blocks."""
    known = {name: change for name, change in changes.items() if LEFT_OUT not in change}
    with tempfile.TemporaryDirectory(prefix="clew-diff-") as folder:
        Path(folder, "objects").mkdir()
        scratch = _ScratchStore(store.folder, store.git, Path(folder), until=store.until)
        old, new = (
            scratch.tree({name: change[side] for name, change in known.items()}) for side in (0, 1)
        )
        yield Comparison(scratch, changes, old, new)
