"""Changes as git shows them: renames, counts of lines, and a unified diff. The store is only read.

git compares two trees that hold nothing but these changes. They are written to a folder of their own, which goes by the
store for everything else.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from clew_shared.snapshots.entries import LEFT_OUT, git_mode
from clew_shared.snapshots.names import quoted, unquoted
from clew_shared.snapshots.store import SnapshotStore, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_shared.snapshots.entries import Changes, Entry

_RENAMES = ("-r", "--find-renames", "--no-ext-diff", "--no-textconv")
_READ_BYTES = 1 << 16


class FileCount(NamedTuple):
    """A file that differs, by quoted name, and by how many lines; `old_path` is that of a renamed one, else "".

    `left_out`: a snapshot does not have it, so its lines are not known. `folder`: it is, or was, an empty folder.
    """

    path: str
    old_path: str
    added: int
    removed: int
    binary: bool
    left_out: bool = False
    folder: bool = False


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
    """The two sides of changes, as trees."""

    store: _ScratchStore
    old: str
    new: str

    def files(self) -> list[FileCount]:
        """Return the files and symlinks that differ in more than git's mode, sorted by name; raises StoreError."""
        options = (*_RENAMES, "--numstat", "-z")
        fields = iter(self.store.run("diff-tree", *options, self.old, self.new).split(b"\0"))
        found = []
        for head in fields:
            if not head:
                break
            added, removed, name = head.split(b"\t", 2)
            old = b"" if name else next(fields)
            path, old_path = quoted(name or next(fields)), quoted(old) if old else ""
            binary = added == b"-"
            counts = (0, 0) if binary else (int(added), int(removed))
            found.append(FileCount(path, old_path, *counts, binary))
        return found

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
        yield Comparison(scratch, old, new)
