"""One name in an open folder of the workspace: what is there, and how it is replaced in one step.

Everything goes by the folder's descriptor, so nothing outside of it is ever written, whatever is swapped for a link
meanwhile; and what has changed since it was looked at is not replaced.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator

from clew_shared.wire.executor import DAMAGED, NOT_EMPTY
from clew_worker.executor.snapshots.folders import open_folder
from clew_worker.executor.snapshots.git import SnapshotError
from clew_worker.executor.snapshots.objects import StoredContents
from clew_worker.executor.world.contents import blob_hash, blob_id, stamp_of
from clew_worker.sandbox import kernel

# Replaces and removes files in an open folder in one step; what someone saves there in that very moment is put back.
#
# What was there is moved to a draft's name and looked at before it is removed: between a look and a rename, there is
# always a moment in which something else may be saved.

_DRAFT = ".clew-undo-"
_DRAFTS = re.compile(rf"{re.escape(_DRAFT)}[0-9a-f]{{16}}")
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class ChangedError(Exception):
    """Something else is there than what may be replaced."""


def draft_name() -> str:
    """Return a name that nothing has, and that `remove_drafts` knows."""
    return f"{_DRAFT}{secrets.token_hex(8)}"


def remove_drafts(at: int) -> None:
    """Remove what an undo that was killed has left in a folder."""
    with os.scandir(at) as entries:
        names = [entry.name for entry in entries if _DRAFTS.fullmatch(entry.name)]
    for name in names:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=at)


def looked(at: int, name: str) -> os.stat_result | None:
    """Return what is at a name, None for nothing."""
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return None


def check(at: int, name: str, then: os.stat_result | None) -> None:
    """Raise ChangedError where something else is there than there was."""
    now = looked(at, name)
    if (now and stamp_of(now)) != (then and stamp_of(then)):
        raise ChangedError


def replace_by(at: int, draft: str, name: str, then: os.stat_result) -> None:
    """Put a draft in the place of the file `then`; ChangedError where something else is there."""
    check(at, name, then)
    ours = os.stat(draft, dir_fd=at, follow_symlinks=False)
    try:
        kernel.exchange(draft, name, at)
    except FileNotFoundError:
        raise ChangedError from None
    except OSError as error:
        if error.errno not in _NO_EXCHANGE:
            raise
        os.rename(draft, name, src_dir_fd=at, dst_dir_fd=at)
        return
    if not _is_moved(at, draft, then):
        kernel.exchange(draft, name, at)
        if not _is_moved(at, draft, ours):  # what has just been saved is newer
            kernel.exchange(draft, name, at)
        raise ChangedError


def remove_file(at: int, name: str, then: os.stat_result) -> None:
    """Remove the file `then`; ChangedError where something else is there."""
    check(at, name, then)
    aside = draft_name()
    try:
        os.rename(name, aside, src_dir_fd=at, dst_dir_fd=at)
    except FileNotFoundError:
        raise ChangedError from None
    changed = not _is_moved(at, aside, then)
    if changed:
        _put_back(at, aside, name)
    with contextlib.suppress(FileNotFoundError, IsADirectoryError):
        os.unlink(aside, dir_fd=at)
    if changed:
        raise ChangedError


def _put_back(at: int, aside: str, name: str) -> None:
    """Put back what was saved at a name in the moment before it was moved aside; what came there since is newer.

    If that fails, the file stays under the name that it was moved to.
    """
    with contextlib.suppress(ChangedError):
        place_new(at, aside, name)


def place_new(at: int, draft: str, name: str) -> None:
    """Link a draft to its name where nothing has that name; ChangedError where something has."""
    try:
        os.link(draft, name, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
    except FileExistsError:
        raise ChangedError from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if looked(at, name) is not None:
            raise ChangedError from None
        os.rename(draft, name, src_dir_fd=at, dst_dir_fd=at)


def _is_moved(at: int, name: str, then: os.stat_result) -> bool:
    """Return whether the file `then` was renamed to a name, unchanged: a rename alone changes its time of change."""
    now = looked(at, name)
    return now is not None and _moved_stamp(now) == _moved_stamp(then)


def _moved_stamp(info: os.stat_result) -> tuple[int, ...]:
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_mode


Wanted = tuple[int, str] | None
"""A `st_mode` and a git object, "" for a folder; None for nothing (`RestoreEntry`)."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1024 * 1024
_NOT_OWNER = (errno.EPERM, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


class NamedPlace:
    """A name in the folder `at`, as it is now."""

    def __init__(self, at: int, name: str, objects: StoredContents) -> None:
        self._at = at
        self._name = name
        self._objects = objects
        self._info = looked(at, name)
        self._ids: dict[int, str] = {}

    def holds(self, wanted: Wanted) -> bool:
        """Return whether exactly this is there."""
        if wanted is None or self._info is None:
            return wanted is None and self._info is None
        mode, name = wanted
        if stat.S_IFMT(mode) != stat.S_IFMT(self._info.st_mode):
            return False
        if stat.S_ISLNK(mode):
            return blob_id(os.fsencode(os.readlink(self._name, dir_fd=self._at))) == name
        if stat.S_IMODE(mode) != stat.S_IMODE(self._info.st_mode):
            return False
        return stat.S_ISDIR(mode) or self._has_content(name)

    @property
    def is_folder(self) -> bool:
        """Whether a folder is there."""
        return self._info is not None and stat.S_ISDIR(self._info.st_mode)

    @property
    def is_special(self) -> bool:
        """Whether something is there that is in no snapshot: a FIFO, a socket or a device."""
        kinds = (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR)
        return self._info is not None and stat.S_IFMT(self._info.st_mode) not in kinds

    @property
    def is_empty_folder(self) -> bool:
        """Whether a folder is there with nothing in it."""
        if not self.is_folder:
            return False
        with _opened(self._at, self._name) as fd, os.scandir(fd) as entries:
            return next(entries, None) is None

    def put(self, wanted: Wanted) -> None:
        """Put something in the place of what is there; ChangedError where that has changed since, or is in use."""
        if wanted is None:
            self._clear()
        elif stat.S_ISDIR(wanted[0]):
            self._put_folder(stat.S_IMODE(wanted[0]))
        else:
            self._put_file(*wanted)

    def _has_content(self, name: str) -> bool:
        """Return whether a file has this content; it is read only where the size is right."""
        if self._info is None:
            return False
        size = self._info.st_size
        if self._objects.size(name) != size:
            return False
        if size not in self._ids:
            fd = os.open(self._name, _READ, dir_fd=self._at)
            try:
                same = stamp_of(os.fstat(fd)) == stamp_of(self._info)
                self._ids[size] = _file_id(fd, size) if same else ""
            finally:
                os.close(fd)
        return self._ids[size] == name

    def _clear(self) -> None:
        if self._info is None:
            return
        if stat.S_ISDIR(self._info.st_mode):
            self._remove_folder()
        else:
            remove_file(self._at, self._name, self._info)

    def _remove_folder(self) -> None:
        try:
            os.rmdir(self._name, dir_fd=self._at)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise SnapshotError(NOT_EMPTY) from None
            if error.errno in (errno.ENOTDIR, errno.ENOENT):
                raise ChangedError from None
            raise

    def _put_folder(self, bits: int) -> None:
        if self._info is None or not stat.S_ISDIR(self._info.st_mode):
            self._clear()
            try:
                make_folder(self._at, self._name, bits)
            except FileExistsError:
                raise ChangedError from None
        with _opened(self._at, self._name) as fd:
            os.fchmod(fd, bits)

    def _put_file(self, mode: int, name: str) -> None:
        if self._has_set_mode(mode, name):
            return
        draft = draft_name()
        try:
            self._write_draft(draft, mode, name)
            if self._info is not None and not stat.S_ISDIR(self._info.st_mode):
                replace_by(self._at, draft, self._name, self._info)
                return
            self._clear()
            place_new(self._at, draft, self._name)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=self._at)

    def _has_set_mode(self, mode: int, name: str) -> bool:
        """Set only the permissions of a file that has the content already; return whether that was enough."""
        if self._info is None or not (stat.S_ISREG(self._info.st_mode) and stat.S_ISREG(mode)):
            return False
        with contextlib.suppress(
            PermissionError
        ):  # one that cannot be read, or is another user's, is replaced
            if self._has_content(name):
                fd = os.open(self._name, _READ, dir_fd=self._at)
                try:
                    check(self._at, self._name, self._info)
                    if stamp_of(os.fstat(fd)) != stamp_of(self._info):
                        raise ChangedError
                    os.fchmod(fd, stat.S_IMODE(mode))
                    os.fsync(fd)
                    return True
                finally:
                    os.close(fd)
        return False

    def _write_draft(self, draft: str, mode: int, name: str) -> None:
        data = self._objects.read(name)
        if blob_id(data) != name:
            raise SnapshotError(DAMAGED)
        if stat.S_ISLNK(mode):
            os.symlink(data, draft, dir_fd=self._at)
            self._keep_owner(draft)
            return
        fd = os.open(draft, _NEW, 0o600, dir_fd=self._at)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            self._keep_owner(draft)
            os.fchmod(
                fd, stat.S_IMODE(mode)
            )  # after the owner: a change of owner takes setuid away
            os.fsync(fd)

    def _keep_owner(self, draft: str) -> None:
        """Set owner and group of a draft to those of what it replaces, or the group alone, where that is allowed."""
        if self._info is None or stat.S_ISDIR(self._info.st_mode):
            return
        now = os.stat(draft, dir_fd=self._at, follow_symlinks=False)
        owner, group = self._info.st_uid, self._info.st_gid
        if (now.st_uid, now.st_gid) == (owner, group):
            return
        for uid, gid in ((owner, group), (-1, group)):
            try:
                os.chown(draft, uid, gid, dir_fd=self._at, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _NOT_OWNER:
                    raise
            else:
                return


def make_folder(at: int, name: str, bits: int) -> None:
    """Make a folder with these permissions, whatever the umask is: killed right after, it is as it should be."""
    umask = os.umask(0)
    try:
        os.mkdir(name, bits, dir_fd=at)
    finally:
        os.umask(umask)


@contextlib.contextmanager
def writable(at: int) -> Iterator[None]:
    """Let the owner of a folder write in it for a while, where its mode forbids that."""
    mode = stat.S_IMODE(os.fstat(at).st_mode)
    closed = mode & 0o300 != 0o300 and os.geteuid() != 0
    if closed:
        os.fchmod(at, mode | 0o300)
    try:
        yield
    finally:
        if closed:
            os.fchmod(at, mode)


@contextlib.contextmanager
def _opened(at: int, name: str) -> Iterator[int]:
    fd = open_folder(at, name)
    try:
        yield fd
    finally:
        os.close(fd)


def _file_id(fd: int, size: int) -> str:
    """Return the name that git gives the content of an open file of `size` bytes; "" where it has others."""
    digest, left = blob_hash(size), size
    while data := os.read(fd, _CHUNK):
        left -= len(data)
        if left < 0:
            return ""
        digest.update(data)
    return digest.hexdigest() if left == 0 else ""
