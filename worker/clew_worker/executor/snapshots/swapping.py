"""Replaces and removes files in an open folder in one step; what someone saves there in that very moment is put back.

What was there is moved to a draft's name and looked at before it is removed: between a look and a rename, there is
always a moment in which something else may be saved.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets

from clew_worker.executor.world.contents import stamp_of
from clew_worker.sandbox import kernel

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
