"""clew's own folders, made and checked before use: they belong to this user alone; and where they are, on record.

They are checked by the descriptor that was opened, so that the folder that was checked is the one that is used.
"""

import contextlib
import json
import os
import pwd
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from clew_shared.config.places import FOLDERS, Places, PlacesError, places
from clew_shared.files import closing, write_whole

RECORD = "places.json"


class FolderError(Exception):
    """A folder that another user could use against us; the message says what to do."""


def make(own: Places) -> None:
    """Make what is not there; state and run are closed to others. Raises FolderError, OSError."""
    for folder in (own.state, own.run):
        make_private(folder)
    for folder in (own.inbox, own.outbox, own.workspaces):
        folder.mkdir(parents=True, exist_ok=True)


def make_private(folder: Path) -> None:
    """Make a folder of mode 0700, or see that an existing one is this user's and no one else could write in it.

    A link is followed where this user or root has made it. Raises FolderError, OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    maker = folder.lstat().st_uid
    if maker not in (os.getuid(), 0):
        what = f"the link {folder}" if folder.is_symlink() else str(folder)
        raise FolderError(_foreign(what, maker))
    with closing(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as fd:
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


def _foreign(what: str, owner: int) -> str:
    """Return who owns it, and what to do, which never removes or takes over what is theirs."""
    try:
        name = pwd.getpwuid(owner).pw_name
        whose = f"user {name} ({owner})"
    except KeyError:
        name, whose = f"'#{owner}'", f"user {owner}"
    return (
        f"{what} belongs to {whose}, but this is user {os.getuid()}: "
        f"run clew as that user (sudo -u {name} clew run), or use another home (clew --home DIR)"
    )


# A config that moves folders (`[paths]`) and then cannot be read would hide the running daemon from clients. So it
# records its places in the state folder that an empty config would give. Without `[paths]` it records none.


def record(found: Places, ledger: Path, log_file: Path, env: Mapping[str, str]) -> None:
    """Record where this daemon's folders, ledger and log are; raises OSError."""
    try:
        usual = places(env, found.home, None)
    except PlacesError:  # no HOME: no client could find the record either
        return
    file = usual.state / RECORD
    where = usual.folders, usual.state / "ledger.db", usual.log_file
    if (found.folders, ledger, log_file) == where:
        file.unlink(missing_ok=True)
        return
    usual.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    entry = {name: str(folder) for name, folder in found.folders.items()}
    entry |= {"config": str(found.config), "ledger": str(ledger), "log": str(log_file)}
    write_whole(file, json.dumps(entry) + "\n")


def recorded(usual: Places) -> dict[str, Path]:
    """Return the places that are recorded for the config of `usual`: the folders, `ledger` and `log`; {} if none."""
    with contextlib.suppress(OSError, ValueError):
        entry = json.loads((usual.state / RECORD).read_bytes())
        if isinstance(entry, dict) and entry.get("config") == str(usual.config):
            named = {key: entry.get(key) for key in (*FOLDERS, "ledger", "log")}
            return {
                key: Path(value)
                for key, value in named.items()
                if isinstance(value, str) and value.startswith("/") and "\0" not in value
            }
    return {}


def overlap(a: str, b: str) -> bool:
    """Return whether two workspaces are the same, or one lies in the other."""
    one, other = PurePosixPath(a), PurePosixPath(b)
    return one == other or one in other.parents or other in one.parents
