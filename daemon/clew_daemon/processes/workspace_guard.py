"""What is in the place of a goal's workspace; looked at before anything acts there.

Anyone may remove, rename, replace or mount over a workspace at any moment. Paths are
real ones (links resolved when the goal was accepted), so a link on the way is a replacement. Nothing here starts or
ends anything.
"""

import fcntl
import os
import stat
import struct
import weakref
from dataclasses import dataclass
from pathlib import Path

from clew_shared.core.questions import Question, question
from clew_shared.record import identity
from clew_shared.record.identity import Identity
from clew_shared.record.moment import iso
from clew_shared.record.state import State
from clew_shared.text.plain import plain
from clew_shared.wire.nursery import is_shortage

# Who works in a folder: a shared record lock (of an open file description, fcntl(2)) on the byte whose number is
# the daemon's pid; a folder allows no exclusive one, so each daemon puts its mark and then looks for those of others.
# It is no flock(2), which an action's own `flock .` would wait for, and no file, which an action could remove.

_LOCK = "hhqqi4x"  # struct flock: type, whence, start, length, pid
_FIRST = 1 << 40  # the byte of pid 0, which no one else locks of a folder
_PIDS = 1 << 23  # more than pid_max can be


def _lock(fd: int, what: int, kind: int, start: int, length: int) -> tuple[int, int]:
    """Set, remove or look for a lock; returns the kind and the start of the one that is in the way."""
    answer = fcntl.fcntl(fd, what, struct.pack(_LOCK, kind, os.SEEK_SET, start, length, 0))
    found = struct.unpack(_LOCK, answer)
    return found[0], found[2]


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Missing:
    """Why nothing may act at a workspace: `stranger` is another folder in its place, `gone` says that none is there."""

    reason: str
    detail: str
    stranger: Identity | None = None
    gone: bool = False

    def question(self, state: State) -> Question:
        choices = ["fixed"]
        if self.stranger or self.gone:
            choices = ["put_back", "accept" if self.stranger else "empty"]
        return question(state, f"{self.reason}: {self.detail}", *choices, reason=self.reason)


def missing(workspace: str, known: Identity | None) -> Missing | None:
    """Return what is wrong with the place of a workspace; None if `known`, or any, is there, or no one can look now."""
    try:
        return _wrong(workspace, known)
    except FileNotFoundError:
        detail = f"{workspace} was removed or renamed while the goal worked in it."
        return Missing("the workspace is gone", detail, gone=True)
    except OSError as error:
        return None if is_shortage(error) else _out_of_reach(workspace, error)


def _wrong(workspace: str, known: Identity | None) -> Missing | None:
    real = os.path.realpath(workspace)
    if real != workspace:
        return Missing("the workspace is now a link", f"{workspace} is now a link to {real}.")
    found = os.stat(workspace, follow_symlinks=False)  # noqa: PTH116 - the path is text everywhere
    if not stat.S_ISDIR(found.st_mode):
        return Missing("the workspace is no longer a folder", f"{workspace} is no longer a folder.")
    seen = identity.of_path(workspace)
    if known and not seen.is_same(known):
        return _replaced(workspace, known, seen)
    if not os.access(workspace, os.R_OK | os.X_OK):
        mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
        detail = f"{workspace} cannot be read by this user ({mode})."
        return Missing("the workspace cannot be reached", detail)
    return None


def accepted(workspace: str, state: State) -> tuple[Identity | None, bool]:
    """Return what a person accepts by resuming a goal: another folder, or that an empty one is made.

    Only what they were asked about, and only while it is still so: else they have repaired something, or must be asked
    again.
    """
    try:
        seen = identity.of_path(workspace)
    except FileNotFoundError:
        return None, state.gone
    except OSError:
        return None, False
    return (seen if state.stranger and seen.is_same(state.stranger) else None), False


def enter(workspace: str, known: Identity | None, *, make: bool) -> "WorkspaceGuard | Missing":
    """Open the folder `known` (None: any); `make` allows an empty one. OSError where resources have run out."""
    made = False
    try:
        if make:
            Path(workspace).mkdir(parents=True)
            made = True
    except FileExistsError:
        pass
    except OSError as error:
        if is_shortage(error):
            raise
        reason = f"the workspace cannot be created: {plain(error)}"
        return Missing(reason, f"{workspace} cannot be created.")
    expected = None if made else known
    if why := missing(workspace, expected):
        return why
    try:
        found = WorkspaceGuard(workspace, os.open(workspace, _FOLDER), made=made)
    except OSError as error:
        if is_shortage(error):
            raise
        return _out_of_reach(workspace, error)
    if expected and not found.identity.is_same(expected):  # replaced since it was looked at
        found.close()
        return _replaced(workspace, expected, found.identity)
    return found


class WorkspaceGuard:
    """The folder that a goal works in, held open while the goal is at work."""

    def __init__(self, workspace: str, fd: int, *, made: bool) -> None:
        self._workspace = workspace
        self._fd = fd
        # closed with the last reference, too: it may be opened in a thread whose caller was cancelled meanwhile
        self._closed = weakref.finalize(self, os.close, fd)
        self.made = made
        self.identity = identity.of_descriptor(fd)

    @property
    def place(self) -> tuple[int, int]:
        """Its device and inode, which no other folder gets while it is open."""
        return self.identity.dev, self.identity.ino

    def stands(self) -> bool:
        """Return, by one system call, whether it is still in its place; False may also mean unreadable."""
        try:
            now = os.stat(self._workspace, follow_symlinks=False)  # noqa: PTH116 - as above
        except OSError:
            return False
        return (now.st_dev, now.st_ino) == self.place

    def missing(self) -> Missing | None:
        """Return what is wrong with its place, None if it is there."""
        return missing(self._workspace, self.identity)

    def occupy(self) -> str:
        """Mark it as in use until it is closed; return who else uses it, "" for no one, or if there are no locks."""
        fd, me = self._fd, os.getpid()
        try:
            _lock(fd, fcntl.F_OFD_SETLK, fcntl.F_RDLCK, _FIRST + me, 1)
            kind, start = _lock(fd, fcntl.F_OFD_GETLK, fcntl.F_WRLCK, _FIRST, _PIDS)
            if kind == fcntl.F_UNLCK:
                return ""
            _lock(fd, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, _FIRST + me, 1)
        except OSError:
            return ""
        other = start - _FIRST
        return "another goal of this daemon" if other == me else f"another clew (process {other})"

    def close(self) -> None:
        """Close the folder and remove the mark; legal at any time."""
        self._closed()


def _replaced(workspace: str, known: Identity, seen: Identity) -> Missing:
    both = f"the original: {_described(known)}; now: {_described(seen)}"
    detail = f"{workspace} is not the folder that this goal works in ({both})."
    return Missing("the workspace was replaced", detail, stranger=seen)


def _described(folder: Identity) -> str:
    device = f"device {os.major(folder.dev)}:{os.minor(folder.dev)}, inode {folder.ino}"
    return device if folder.birth_ns is None else f"{device}, created {iso(folder.birth_ns / 1e9)}"


def _out_of_reach(workspace: str, error: OSError) -> Missing:
    detail = f"{workspace} cannot be read: {error.strerror}."
    return Missing("the workspace cannot be reached", detail)
