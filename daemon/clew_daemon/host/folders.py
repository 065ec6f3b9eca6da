"""clew's own folders, made and checked as they were opened, for this user alone; and where goals may work."""

import contextlib
import json
import os
import pwd
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from clew_daemon.config.places import FOLDERS, Places, PlacesError, default_places, expanded, places
from clew_shared.files import closing, write_whole
from clew_shared.text.plain import plain, recordable

RECORD = "places.json"
_DRAFT = f".{'[0-9a-f]' * 16}.tmp"  # as `write_whole` names them


class FolderError(Exception):
    """A folder that another user could use against us; the message says what to do."""


def make(own: Places) -> None:
    """Make what is not there; state and run are closed to others. Raises FolderError, OSError."""
    for folder in (own.state, own.run):
        make_private(folder)
    for folder in (own.inbox, own.outbox, own.workspaces):
        folder.mkdir(parents=True, exist_ok=True)


def remove_drafts(*folders: Path) -> None:
    """Remove what a daemon that was killed while it wrote a file left there; for the one that holds the lock."""
    for draft in (one for folder in folders for one in folder.glob(_DRAFT)):
        with contextlib.suppress(OSError):
            draft.unlink()


def make_private(folder: Path) -> None:
    """Make a folder with mode 0700, or check that only its owner can write to it; raises FolderError, OSError."""
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
            by_others = f"{folder} can be written by others (mode {mode:04o})"
            raise FolderError(f"{by_others}: check what is there, then chmod 700 {folder}")
        if mode != 0o700:
            os.fchmod(fd, 0o700)


def _foreign(what: str, owner: int) -> str:
    """Return whose it is, and what to do, which never removes or takes over what is theirs."""
    name = f"'#{owner}'"
    with contextlib.suppress(KeyError):
        name = pwd.getpwuid(owner).pw_name
    return (
        f"{what} belongs to user {name} ({owner}), but this is user {os.getuid()}: "
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


# -- where a goal may work: the folder that a `workspace:` means, with its links resolved, unless it is clew's own

SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")  # an action sees something else there than the daemon


def located(workspace: str, places: Places, env: Mapping[str, str]) -> Path:
    """Return the folder that a `workspace:` means; ValueError where no goal may work there."""
    try:
        folder = expanded(workspace, env).resolve()
    except (OSError, RuntimeError) as error:  # a ring of links
        reason = f"{workspace} cannot be resolved ({plain(error)}): choose another folder"
        raise ValueError(reason) from None
    shown = recordable(str(folder))
    if str(folder) != shown:  # by HOME, or by a link
        raise ValueError(f"{shown} has bytes that are not UTF-8: choose another folder")
    other = default_places(env) if places.home is not None else None
    if fault := workspace_fault(folder, _resolved(places), other and _resolved(other)):
        raise ValueError(fault)
    return folder


def _resolved(places: Places) -> Places:
    named = {"config": places.config, **places.folders}
    return replace(places, **{name: Path(os.path.realpath(one)) for name, one in named.items()})


def workspace_fault(workspace: Path, places: Places, other: Places | None = None) -> str | None:
    """Return why a goal may not work there, or None; all paths absolute and links resolved.

    Refused: `/`, the kernel's folders, clew's own folders and what is in them, and every folder that holds one of them;
    those of `other`, the default home's, as well. Allowed: what is in `workspaces`.
    """
    wanted = Path(os.path.normpath(workspace))
    if wanted == Path("/") or not wanted.is_absolute():
        return f"must be the absolute path of a folder below /, not {workspace}"
    for folder in SYSTEM_FOLDERS:
        if wanted.is_relative_to(folder):
            return f"{workspace} is inside {folder}, where no goal can work: choose another folder"
    for own in filter(None, (places, other)):
        configs = [own.config] if own.home else [own.config, own.config.parent]
        within = wanted != own.workspaces and wanted.is_relative_to(own.workspaces)
        for place in (*own.folders.values(), *configs):
            if place.is_relative_to(wanted) or (wanted.is_relative_to(place) and not within):
                return f"{workspace} is, contains or is inside clew's own {place}: choose another folder"
        if within:
            break
    return None
