"""Opens folders of the workspace by their path, never through a symlink.

Names are as `os.fsdecode` gives them; a path is relative to the workspace, "" is the workspace itself.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from clew_worker.sandbox import kernel

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_folder(root: int, path: str) -> int:
    """Return a descriptor of the folder at `path` below the folder `root`; OSError where it is none, or a link."""
    if not path:
        return os.open(".", _FOLDER, dir_fd=root)
    try:
        return kernel.open_beneath(path, _FOLDER, 0, root, links=False)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
    return _walk(root, path)


def _walk(root: int, path: str) -> int:
    """Open a folder component by component, where the kernel has no openat2."""
    at = os.dup(root)
    try:
        for part in path.split("/"):
            below = os.open(part, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
    except BaseException:
        os.close(at)
        raise
    return at


def split(path: str) -> tuple[str, str]:
    """Return the folder of a path, and its last name."""
    folder, _, name = path.rpartition("/")
    return folder, name


def above(paths: Iterable[str]) -> set[str]:
    """Return the folders above paths."""
    found: set[str] = set()
    for path in paths:
        folder = split(path)[0]
        while folder and folder not in found:
            found.add(folder)
            folder = split(folder)[0]
    return found
