"""A goal's store as an executor writes it: what git does not write itself, and what one that was killed has left."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from clew_shared.files.durable import sync
from clew_shared.snapshots.store import EMPTY_TREE, FILES, MODES, SnapshotStore
from clew_worker.executor.snapshots.git import GitFailedError, NoRoomError, SnapshotError
from clew_worker.sandbox import kernel

DRAFT = "index.new"
_INDEX = "index"
_REFS = "refs/snapshots"
_FOLDERS = ("info", "objects/info", "objects/pack", "refs/heads", _REFS)
_LEFT_BY_GIT = ("tmp_", ".tmp-", "fast_import_crash_", DRAFT)
_LOCKS = (".lock", ".keep")
_OBJECT_LETTERS = 38


class StoreWriter:
    """The store of one goal."""

    def __init__(self, store: SnapshotStore) -> None:
        self._store = store
        self._folder = store.folder

    def prepare(self) -> None:
        """Have a store that can be used. Raises OSError."""
        _tidy(self._folder)
        if not self._store.exists:
            self._store.make()
        for name in _FOLDERS:
            (self._folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)

    @property
    def has_index(self) -> bool:
        """Whether there is an index of the last snapshot."""
        return (self._folder / _INDEX).exists()

    def used(self) -> int:
        """Return how many bytes the objects have."""
        return sum(
            entry.stat(follow_symlinks=False).st_size
            for folder in _scanned(self._folder / "objects")
            if folder.is_dir(follow_symlinks=False)
            for entry in _scanned(folder.path)
        )

    @contextlib.contextmanager
    def draft(self, prune: Callable[[], object]) -> Iterator[None]:
        """Change a draft of the index: a failure leaves nothing of it, and one that took too long is continued.

        `prune` removes the objects that nothing names.
        """
        draft, index = self._folder / DRAFT, self._folder / _INDEX
        packs = self._packs()
        if index.exists():
            shutil.copy2(index, draft)  # with its time, by which git knows what it must read again
        try:
            yield
        except (NoRoomError, GitFailedError) as error:
            with contextlib.suppress(OSError, SnapshotError):
                draft.unlink(missing_ok=True)
                if isinstance(error, GitFailedError):
                    index.unlink(missing_ok=True)
                for pack in self._packs() - packs:
                    pack.unlink()
                prune()
            raise
        except SnapshotError:
            with contextlib.suppress(OSError):
                self._keep_draft()
            raise

    def write(self, files: str, modes: bytes) -> str:
        """Write the tree of a snapshot and its ref, unless it is that of the last one; return its name.

        `files` is the tree of the files in the draft of the index, which is the index from then on.
        """
        entries = b"100644 %s\0%s" % (MODES.encode(), bytes.fromhex(self._object(b"blob", modes)))
        if files != EMPTY_TREE:
            entries = b"40000 %s\0%s" % (FILES.encode(), bytes.fromhex(files)) + entries
        tree = self._object(b"tree", entries)
        number, last = self._last()
        if tree == last:  # all of it is durable
            self._replace_index()
        else:
            self._keep_draft()
            ref = self._folder / _REFS / str(number + 1)
            draft = ref.with_name(f"{ref.name}.lock")
            draft.write_text(f"{tree}\n")
            sync(draft)
            draft.replace(ref)
            sync(ref.parent)
        return tree

    def _keep_draft(self) -> None:
        """Make all that was written durable, and only then have the draft as the index."""
        fd = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            kernel.sync_disk(fd)
        finally:
            os.close(fd)
        self._replace_index()

    def _replace_index(self) -> None:
        with contextlib.suppress(FileNotFoundError):  # nothing was ever in it
            (self._folder / DRAFT).replace(self._folder / _INDEX)

    def _object(self, kind: bytes, data: bytes) -> str:
        """Write a git object; return its name."""
        raw = b"%s %d\0%s" % (kind, len(data), data)
        name = hashlib.sha1(raw, usedforsecurity=False).hexdigest()
        place = self._folder / "objects" / name[:2] / name[2:]
        if not place.exists():
            place.parent.mkdir(exist_ok=True, mode=0o700)
            draft = place.with_name("tmp_obj_clew")
            draft.write_bytes(zlib.compress(raw))
            draft.replace(place)
        return name

    def _last(self) -> tuple[int, str]:
        """Return the number of the last snapshot, and its tree; earlier versions had a commit in its ref."""
        refs = self._folder / _REFS
        number = max((int(one.name) for one in _scanned(refs) if one.name.isdecimal()), default=0)
        return number, (refs / str(number)).read_text().strip() if number else ""

    def _packs(self) -> set[Path]:
        return set((self._folder / "objects" / "pack").glob("*"))


def _tidy(folder: Path) -> None:
    """Remove what a git that was killed has left, and set the permissions right. Raises OSError.

    Landlock knows no permissions: a command can change them, but can neither read nor write the store all the same.
    """
    with contextlib.suppress(PermissionError):  # another user's is left
        folder.chmod(0o700)
    for entry in _scanned(folder):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if entry.is_dir(follow_symlinks=False):
                _tidy(Path(entry.path))
            elif entry.name.startswith(_LEFT_BY_GIT) or entry.name.endswith(_LOCKS):
                Path(entry.path).unlink()
            elif len(entry.name) != _OBJECT_LETTERS:
                Path(entry.path).chmod(0o600)


def _scanned(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
