"""Removing a folder that a worker may have filled, whatever it put there.

Deeper than any stack, longer than any path, folders without permissions: a tree is taken apart from the top,
each folder within a folder first moved up, so that two descriptors and no recursion are enough. Links are removed
and never followed.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTED_MAX = 1_000


def remove_tree(path: str | os.PathLike[str], dir_fd: int | None = None) -> None:
    """Remove a folder and all that is in it; raises OSError, also if there is none."""
    top = _opened(os.fspath(path), dir_fd)
    try:
        names = itertools.count()
        while entries := _some(top):
            for name in entries:
                if not _unlinked(name, top):
                    _emptied(name, top, names)
    finally:
        os.close(top)
    os.rmdir(path, dir_fd=dir_fd)


def _emptied(name: str, top: int, names: itertools.count[int]) -> None:
    """Remove a folder of `top`; folders in it are moved up to be emptied later."""
    inner = _opened(name, top)
    try:
        while entries := _some(inner):
            for entry in entries:
                if not _unlinked(entry, inner):
                    _moved_up(entry, inner, top, names)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _moved_up(name: str, inner: int, top: int, names: itertools.count[int]) -> None:
    os.close(_opened(name, inner))  # a folder that its owner may not write in cannot be moved
    while True:
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            os.mkdir(target := f".{next(names)}", dir_fd=top)
            os.rename(name, target, src_dir_fd=inner, dst_dir_fd=top)
            return


def _some(folder: int) -> list[str]:
    """Return some of the names in a folder."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in itertools.islice(entries, _LISTED_MAX)]


def _unlinked(name: str, folder: int) -> bool:
    """Remove anything but a folder; return False for a folder."""
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return False
    os.unlink(name, dir_fd=folder)
    return True


def _opened(name: str, folder: int | None) -> int:
    """Open a folder, and give its owner permission where its mode does not."""
    place = os.open(name, _PLACE, dir_fd=folder)
    try:
        found = os.fstat(place)
        if stat.S_ISDIR(found.st_mode) and found.st_mode & 0o700 != 0o700:
            with contextlib.suppress(OSError):
                os.chmod(f"/proc/self/fd/{place}", 0o700)  # noqa: PTH101 - by descriptor
    finally:
        os.close(place)
    return os.open(name, _FOLDER, dir_fd=folder)
