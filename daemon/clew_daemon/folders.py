"""clew's own folders, as they must be before anything is kept in them: this user's alone.

Looked at by the descriptor that was opened, so that what was checked is what is used. What lies inside is not known
here.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from clew_shared.places import Places


class FolderError(Exception):
    """A folder that somebody else could use against us; the message says how to mend it."""


def make(places: Places) -> None:
    """Make what is not there; state and run are closed to others. Raises FolderError, OSError."""
    for folder in (places.state, places.run):
        make_private(folder)
    for folder in (places.inbox, places.outbox, places.workspaces):
        folder.mkdir(parents=True, exist_ok=True)


def make_private(folder: Path) -> None:
    """Make a folder of mode 0700, or see that an existing one is this user's and was writable by nobody else.

    A link is followed where this user or root has made it. Raises FolderError, OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    maker = folder.lstat().st_uid
    if maker not in (os.getuid(), 0):
        raise FolderError(
            f"{folder} was made by user {maker}: remove it, or name another one in [paths]"
        )
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if found.st_uid != os.getuid():
            raise FolderError(
                f"{folder} belongs to user {found.st_uid}, not to the daemon's ({os.getuid()}): "
                "run clew as that user, or name another folder in [paths]"
            )
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o022:
            raise FolderError(
                f"{folder} can be written by others (mode {mode:04o}), who may have put something there: "
                f"look into it, then chmod 700 {folder}"
            )
        if mode != 0o700:
            os.fchmod(fd, 0o700)
    finally:
        os.close(fd)
