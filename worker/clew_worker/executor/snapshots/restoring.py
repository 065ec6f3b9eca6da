"""Restores entries of the workspace from the store: only where exactly that is there which may be replaced.

Each entry is replaced in one step, and one that is as wanted already counts as restored: killed at any point, the same
request is carried out again and completes it. Everything goes by descriptors of folders that were opened without
following a link, so nothing outside of the workspace is ever written.
"""

import contextlib
import errno
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

from clew_shared.files import closing
from clew_shared.snapshots.entries import LEFT_OUT, Entry, Reverted
from clew_shared.snapshots.names import unquoted
from clew_shared.snapshots.store import SnapshotStore, StoreError
from clew_shared.text.plain import plain
from clew_shared.wire import executor as ex
from clew_shared.wire.nursery import CellSpec
from clew_worker.executor.workspace import FOLDER, NEW, Workspace, made_folder, open_beneath
from clew_worker.executor.world.world import blob_id, hash_of_file, stamp_of
from clew_worker.sandbox import kernel

RESTORE_S = 90.0  # How long one request may take; the daemon waits longer for the answer

_DRAFT = ".clew-undo.tmp"
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_KINDS = (0, stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR)
_CHUNK, _COMPARED_BYTES_MAX = 1 << 20, 1 << 30


class _ChangedError(Exception):
    """Something else is there than what may be replaced."""


class StoredContents:
    """The contents of a store, read by one run of git."""

    def __init__(self, store: SnapshotStore) -> None:
        self._store = store
        self._git: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        if self._git is not None:
            self._git.kill()
            self._git.communicate()
            self._git = None

    def read(self, name: str) -> bytes:
        """Return a content; StoreError where the store does not have it, or it is damaged."""
        return self.read_up_to(name, sys.maxsize) or b""

    def read_up_to(self, name: str, most: int) -> bytes | None:
        """Return a content as `read` does, None for one of more than `most` bytes."""
        git = self._git = self._git or self._store.started("cat-file", "--batch")
        assert git.stdin is not None  # noqa: S101 - a pipe
        assert git.stdout is not None  # noqa: S101 - a pipe
        with contextlib.suppress(BrokenPipeError):
            git.stdin.write(name.encode() + b"\n")
            git.stdin.flush()
        said = git.stdout.readline().split()
        if said[1:] == [b"missing"]:
            raise StoreError("the store does not have it")
        size = int(said[2]) if len(said) == 3 else 0
        if size > most:
            for left in range(size + 1, 0, -_CHUNK):
                git.stdout.read(min(left, _CHUNK))
            return None
        data = git.stdout.read(size + 1)[:-1] if len(said) == 3 else b""
        if blob_id(data) != name:
            self.close()
            raise StoreError("its content in the store is damaged")
        return data


class Restorer:
    """Restores entries in one workspace."""

    def __init__(self, spec: CellSpec, workspace: Workspace) -> None:
        self._root = workspace.fileno()
        self._store = SnapshotStore(Path(spec.sandbox.store), spec.git)
        self._until = 0.0

    def restore(self, request: ex.RestoreRequest) -> ex.RestoreDone:
        """Restore entries in their order; what cannot be restored is in the answer."""
        restored: list[str] = []
        left: list[str] = []
        faults: dict[str, str] = {}
        self._until = time.monotonic() + RESTORE_S
        with contextlib.closing(StoredContents(self._store)) as contents:
            for entry in request.entries:
                try:
                    self._restore(entry, contents)
                    if not entry.is_folder:
                        restored.append(entry.name)
                    continue
                except _ChangedError:
                    pass
                except StoreError as error:
                    faults[entry.name] = str(error)[:300]
                except OSError as error:
                    faults[entry.name] = plain(OSError(error.errno, error.strerror))
                left.append(entry.name)
        with contextlib.suppress(OSError), closing(self._open("")) as at:
            kernel.sync_disk(at)
        return ex.RestoreDone(
            id=request.id, restored=tuple(restored), left=tuple(left), faults=faults
        )

    def _restore(self, entry: Reverted, contents: StoredContents) -> None:
        """Restore one entry; _ChangedError where something else is there. Raises StoreError, OSError."""
        path = _path(entry)
        folder, _, name = path.rpartition("/")
        if entry.is_folder:
            with contextlib.suppress(OSError), closing(self._open(folder)) as at:
                os.rmdir(name, dir_fd=at)
            return
        if time.monotonic() > self._until:
            raise StoreError(f"it took more than {RESTORE_S:.0f} s")
        is_new = entry.wanted is not None and entry.present is None
        try:
            at = made_folder(folder or ".", self._open, 0o755) if is_new else self._open(folder)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            if entry.wanted is None:
                return  # where there is no such folder, nothing is in it
            raise _ChangedError from None
        with closing(at):
            _remove_draft(at)  # of an undo that was killed
            place = _Place(at, name)
            if place.holds(entry.wanted):
                return
            if place.kind not in _KINDS:
                raise StoreError("it is not a regular file now")
            if not place.holds(entry.present):
                raise _ChangedError
            place.put(entry.wanted, contents)

    def _open(self, folder: str) -> int:
        return open_beneath(self._root, folder or ".", FOLDER, links=False)


class _Place:
    """A name in the folder `at`, as it is now; `kind` is the type of what is there, 0 for nothing."""

    def __init__(self, at: int, name: str) -> None:
        self._at = at
        self._name = name
        self._info = self._look()
        self.kind = stat.S_IFMT(self._info.st_mode) if self._info else 0

    def _look(self) -> os.stat_result | None:
        with contextlib.suppress(FileNotFoundError):
            return os.stat(self._name, dir_fd=self._at, follow_symlinks=False)
        return None

    def holds(self, side: Entry | None) -> bool:
        """Return whether exactly this is there; a folder is nothing."""
        if side is None or self._info is None:
            return side is None and self.kind in (0, stat.S_IFDIR)
        if stat.S_ISLNK(side.mode) and stat.S_ISLNK(self._info.st_mode):
            return blob_id(os.fsencode(os.readlink(self._name, dir_fd=self._at))) == side.id
        if side.mode != self._info.st_mode:
            return False
        digest, is_whole = hash_of_file(self._at, self._name, _COMPARED_BYTES_MAX)
        return is_whole and digest.hexdigest() == side.id

    def put(self, wanted: Entry | None, contents: StoredContents) -> None:
        """Put something in the place of what is there; _ChangedError where that has changed since."""
        if wanted is not None:
            self._put_file(wanted, contents.read(wanted.id))
        else:
            self._check()
            os.unlink(self._name, dir_fd=self._at)

    def _check(self) -> None:
        now = self._look()
        if (now and stamp_of(now)) != (self._info and stamp_of(self._info)):
            raise _ChangedError

    def _put_file(self, wanted: Entry, data: bytes) -> None:
        try:
            if stat.S_ISLNK(wanted.mode):
                os.symlink(data, _DRAFT, dir_fd=self._at)
                self._keep_owner()
            else:
                with open(os.open(_DRAFT, NEW, 0o600, dir_fd=self._at), "wb") as file:  # noqa: PTH123 - a descriptor
                    file.write(data)
                    file.flush()
                    self._keep_owner()  # a change of owner takes setuid away
                    os.fchmod(file.fileno(), stat.S_IMODE(wanted.mode))
                    os.fsync(file.fileno())
            if self.kind == stat.S_IFDIR:
                os.rmdir(self._name, dir_fd=self._at)
                self._info = None
            self._check()
            os.rename(_DRAFT, self._name, src_dir_fd=self._at, dst_dir_fd=self._at)
        finally:
            _remove_draft(self._at)

    def _keep_owner(self) -> None:
        """Set the owner of a draft to that of the file that it replaces, where that is allowed."""
        if self._info is not None and self.kind != stat.S_IFDIR:
            owner = self._info.st_uid, self._info.st_gid
            with contextlib.suppress(OSError):
                os.chown(_DRAFT, *owner, dir_fd=self._at, follow_symlinks=False)


def _remove_draft(at: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_DRAFT, dir_fd=at)


def _path(entry: Reverted) -> str:
    """Return the path of an entry; StoreError where it could not be one of a snapshot."""
    if LEFT_OUT in (entry.present, entry.wanted):
        raise StoreError("it was left out of the snapshot")
    path = os.fsdecode(unquoted(entry.name))
    parts = path.split("/")
    if {"", ".", ".."}.intersection(parts) or ".git" in (part.lower() for part in parts):
        raise StoreError("not a path of a snapshot")
    return path
