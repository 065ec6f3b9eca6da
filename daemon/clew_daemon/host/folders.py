"""clew's own folders, made and checked before use: they belong to this user alone.

They are checked by the descriptor that was opened, so that the folder that was checked is the one that is used.
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from clew_shared.config.places import Places


class FolderError(Exception):
    """A folder that another user could use against us; the message says what to do."""


def make(places: Places) -> None:
    """Make what is not there; state and run are closed to others. Raises FolderError, OSError."""
    for folder in (places.state, places.run):
        make_private(folder)
    for folder in (places.inbox, places.outbox, places.workspaces):
        folder.mkdir(parents=True, exist_ok=True)


def make_private(folder: Path) -> None:
    """Make a folder of mode 0700, or see that an existing one is this user's and no one else could write in it.

    A link is followed where this user or root has made it. Raises FolderError, OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    maker = folder.lstat().st_uid
    if maker not in (os.getuid(), 0):
        raise FolderError(
            _foreign(f"the link {folder}" if folder.is_symlink() else str(folder), maker)
        )
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if found.st_uid != os.getuid():
            raise FolderError(_foreign(str(folder), found.st_uid))
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o022:
            raise FolderError(
                f"{folder} can be written by others (mode {mode:04o}), who may have put something there: "
                f"check it, then chmod 700 {folder}"
            )
        if mode != 0o700:
            os.fchmod(fd, 0o700)
    finally:
        os.close(fd)


def _foreign(what: str, owner: int) -> str:
    """Return who owns it, and what to do, which never removes or takes over what is theirs."""
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        whose, command = f"user {owner}", f"sudo -u '#{owner}' clew run"
    else:
        whose, command = f"user {name} ({owner})", f"sudo -u {name} clew run"
    return (
        f"{what} belongs to {whose}, but this is user {os.getuid()}: "
        f"run clew as that user ({command}), or use another home (clew --home DIR)"
    )


def overlap(a: str, b: str) -> bool:
    """Return whether two workspaces are the same, or one lies in the other."""
    one, other = PurePosixPath(a), PurePosixPath(b)
    return one == other or one in other.parents or other in one.parents
