"""Reports what has changed in the folders of a tree since the last question, by inotify.

A folder without a watch is *blind* (the limit of watches, a file system that other machines write to, one that cannot
be opened) and has to be looked at each time. Lost events are reported. Writes through a name outside the watched
folders are not seen: see docs/adr/0010.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from pathlib import Path

from clew_worker.sandbox import kernel

Identity = tuple[int, int]
"""Device and inode."""

Look = tuple[bytes, int]
"""What an entry is, apart from what is in a folder: its line, IS_FOLDER for a folder, and its `st_mode`."""

IS_FOLDER = b"d"


class Folder:
    """One folder.

    `lines` has an entry's name and description by name, `modes` its `st_mode`, `below` the folders in it.
    """

    __slots__ = (
        "below",
        "gone",
        "identity",
        "lines",
        "linked",
        "modes",
        "name",
        "parent",
        "path",
        "watch",
    )

    def __init__(self, parent: Folder | None, name: str, path: str, identity: Identity) -> None:
        self.parent = parent
        self.name = name
        self.path = path  # from the workspace on, with a slash at the end; "" for itself
        self.identity = identity
        self.lines: dict[str, bytes] = {}
        self.modes: dict[str, int] = {}  # beside the lines: permissions are no part of the digest
        self.below: dict[str, Folder] = {}
        self.linked: frozenset[str] = frozenset()  # files that have other names, perhaps elsewhere
        self.watch: int | None = None
        self.gone = False

    def look(self, name: str) -> Look | None:
        """Return what an entry was when it was last seen, None where there was none."""
        line = self.lines.get(name)
        if line is None:
            return None
        return IS_FOLDER if name in self.below else line, self.modes.get(name, 0)

    def digest(self) -> bytes:
        """Return the digest of its entries; the lines of the folders in it must be up to date."""
        whole = b"".join(map(self.lines.__getitem__, sorted(self.lines)))
        return hashlib.blake2b(whole, digest_size=16).digest()


WATCHES_MAX = 100_000
EVENTS_BYTES_MAX = 16 * 1024 * 1024  # read at one time; a queue that fills faster has overflowed
_CHUNK = 1024 * 1024

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x02, 0x04, 0x08
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_UNMOUNT, _OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_ONLYDIR = 0x0100_0000
_MASK = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLYDIR
WRITTEN = _MODIFY | _CLOSE_WRITE
_EVENT = struct.Struct("iIII")

_SHARED = (
    *("nfs", "cifs", "smb", "9p", "fuse", "virtiofs", "vboxsf", "prl_fs", "ceph", "afs", "coda"),
    *("lustre", "gfs2", "gpfs", "ocfs2", "beegfs", "orangefs"),
)
"""File systems that other machines may change without this kernel's knowledge."""

Touched = dict["Folder", dict[str, int]]
"""Names by folder, each with the kinds of events; the name "" is the folder itself."""


def _limit() -> int:
    """Return how many watches to use: half of what the user may have, since other programs need some too."""
    try:
        text = Path("/proc/sys/fs/inotify/max_user_watches").read_text()
    except OSError:
        return WATCHES_MAX
    return min(int(text) // 2, WATCHES_MAX)


def _shared_devices() -> set[int]:
    """Return the devices of mounts that other machines may write to."""
    with contextlib.suppress(OSError):
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        devices = {one[2]: one[one.index("-") + 1] for one in mounts}
        shared = [name for name, kind in devices.items() if kind.startswith(_SHARED)]
        return {os.makedev(*map(int, name.split(":"))) for name in shared}
    return set()


class Watches:
    """The watches of one tree's folders."""

    def __init__(self) -> None:
        self._queue = -1
        self._folders: dict[int, set[Folder]] = {}  # a bind mount shows one folder twice
        self._room = 0
        self._shared: set[int] = set()
        self.blind: set[Folder] = set()

    @property
    def on(self) -> bool:
        """Whether watching has begun."""
        return self._queue >= 0

    def __len__(self) -> int:
        """Return how many watches there are."""
        return len(self._folders)

    def start(self) -> None:
        """Begin; if the kernel gives no queue, every folder stays blind."""
        with contextlib.suppress(OSError):
            self._queue = kernel.inotify()
            self._room = _limit()
            self._shared = _shared_devices()

    def stop(self) -> None:
        """Release everything; legal at any time."""
        if self._queue >= 0:
            os.close(self._queue)
            self._queue = -1
        for folders in self._folders.values():
            self.blind.update(folders)
        for folder in self.blind:
            folder.watch = None
        self._folders = {}

    def watch(self, folder: Folder, fd: int) -> None:
        """Watch a folder, open as `fd`, from now on; it is blind where that is not possible."""
        if folder.watch is not None:
            self.blind.discard(folder)
            return
        self.blind.add(folder)
        if self._queue < 0 or self._room <= len(self._folders):
            return
        if folder.identity[0] in self._shared:
            return
        try:
            number = kernel.inotify_add(self._queue, f"/proc/self/fd/{fd}", _MASK)
        except OSError:
            self._room = len(self._folders)  # the limit is reached; tried again when started again
            return
        folder.watch = number
        self._folders.setdefault(number, set()).add(folder)
        self.blind.discard(folder)

    def forget(self, folder: Folder) -> None:
        """Stop watching a folder, which is gone."""
        self.blind.discard(folder)
        number, folder.watch = folder.watch, None
        folders = self._folders.get(number, set()) if number is not None else set()
        folders.discard(folder)
        if number is not None and not folders and self._folders.pop(number, None) is not None:
            with contextlib.suppress(OSError):
                kernel.inotify_remove(self._queue, number)

    def touched(self) -> Touched | None:
        """Take what has happened since the last asking; None if not all of it is known."""
        found: Touched = {}
        taken = 0
        while data := self._taken():
            taken += len(data)
            if taken > EVENTS_BYTES_MAX or not self._sort(data, found):
                return None
        return found

    def _taken(self) -> bytes:
        try:
            return os.read(self._queue, _CHUNK)
        except BlockingIOError:
            return b""

    def _sort(self, data: bytes, found: Touched) -> bool:
        """Put events where they belong; False if the queue has lost some."""
        at = 0
        while at < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
            at += _EVENT.size + length
            if mask & _OVERFLOW:
                return False
            if mask & (_IGNORED | _UNMOUNT):
                self._lost(number)
                continue
            for folder in self._folders.get(number, ()):
                names = found.setdefault(folder, {})
                text = os.fsdecode(name)
                names[text] = names.get(text, 0) | mask
        return True

    def _lost(self, number: int) -> None:
        """Note that the kernel has ended a watch: the folder was removed, or its disk taken away."""
        for folder in self._folders.pop(number, ()):
            folder.watch = None
            self.blind.add(folder)
