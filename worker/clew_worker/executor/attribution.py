"""Whose each change in the workspace is: the goal's, or someone else's (docs/snapshots.md).

The workspace is looked at before and after each action and check. What changed between the two looks is the goal's,
also where it is someone else's who worked in the same moment; what changed from the one after to the next one before
is someone else's.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from typing import TYPE_CHECKING

from clew_shared.record.touched import NAMES_BYTES_MAX, NAMES_MAX, Touched
from clew_shared.snapshots.names import quoted, unquoted
from clew_shared.snapshots.plan import UNREAD
from clew_worker.executor.snapshots.folders import open_folder, split
from clew_worker.executor.snapshots.reading import blob_id, file_id
from clew_worker.executor.world.traces import FOLDER, REMOVED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from clew_worker.executor.world.world import WorldWatch

FILE_BYTES_MAX = 10 * 1024 * 1024
READ_S = 1.0
"""Of an action's changes, larger files and what is not read within this time are reported without their content."""

PENDING_MAX = 100_000
"""More names than this are not collected between two reports; they are counted as "more than was seen"."""

_NAME_BYTES = 60  # of an entry beside its name: the object, and JSON's signs
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Attribution:
    """What has changed in a workspace, open as `root`, since it was last reported, and whose that is.

    A new executor does not know what was done before it: its first look is where it begins. What it missed is visible
    in the snapshot at its start (`anchor`). Until there is one, it is not known whether someone else has changed
    what an action changes again: `foreign_total` is -1.
    """

    def __init__(self, watch: WorldWatch, root: int, notes: Path | None = None) -> None:
        self._watch = watch
        self._root = root
        self._notes = notes
        self._own: dict[str, str] = {}
        self._foreign: set[str] = set()
        self._own_unknown = self._foreign_unknown = False
        self._anchored = False
        self._noted = bool(notes and notes.exists())
        if self._noted:
            self._read_notes()

    def look(self, *, own: bool = False) -> None:
        """Look at the workspace; what has changed since the last look is the goal's (`own`) or someone else's."""
        self._watch.look(full=False)
        self.sort(own=own)

    def look_before_action(self) -> None:
        """Look, and note what is someone else's: if this executor dies in the action, the next one reports it."""
        self.look()
        if self._notes is None:
            return
        with contextlib.suppress(OSError):  # on a full disk it is not noted
            if self._foreign or self._foreign_unknown:
                names = None if self._foreign_unknown else sorted(self._foreign)
                draft = self._notes.with_suffix(".new")
                draft.write_text(json.dumps(names))
                draft.replace(self._notes)
                self._noted = True
            elif self._noted:
                self._notes.unlink(missing_ok=True)
                self._noted = False

    def _read_notes(self) -> None:
        try:
            names = json.loads(self._notes.read_text()) if self._notes else []
            self._foreign = set(names)
        except (OSError, ValueError, TypeError):  # also where all of it was unknown
            self._foreign_unknown = True

    def sort(self, *, own: bool) -> None:
        """Take what the last look has found; see `look`."""
        changed = self._watch.changed()
        if changed is None:
            self._give_up(own=own)
        elif own:
            self._own |= self._objects(changed)
        else:
            self._foreign |= changed.keys()
        if len(self._own) + len(self._foreign) > PENDING_MAX:
            self._give_up(own=own)

    def look_after_restore(self, restored: Iterable[str]) -> None:
        """Look after a restore: what it has restored, by quoted name, is reported with it and not here."""
        names = {os.fsdecode(unquoted(name)) for name in restored}
        self._watch.look(full=False)
        changed = self._watch.changed()
        if changed is None:
            self._give_up(own=False)
            return
        names |= {above for name in names for above in _above(name)}
        self._foreign |= changed.keys() - names

    def anchor(self) -> None:
        """Note that a snapshot was taken: what this executor has not seen of the time before is on record."""
        self._anchored = True

    def report(self) -> Touched:
        """Return what has changed since the last report."""
        own = list(_cut(self._own))
        foreign = [name for name, _ in _cut(dict.fromkeys(self._foreign, ""))]
        unknown = self._foreign_unknown or not self._anchored
        touched = Touched(
            own=() if self._own_unknown else tuple(own),
            own_total=-1 if self._own_unknown else len(self._own),
            foreign=() if unknown else tuple(foreign),
            foreign_total=-1 if unknown else len(self._foreign),
        )
        self._own, self._foreign = {}, set()
        self._own_unknown = self._foreign_unknown = False
        return touched

    def _give_up(self, *, own: bool) -> None:
        if own:
            self._own, self._own_unknown = {}, True
        else:
            self._foreign, self._foreign_unknown = set(), True

    def _objects(self, changed: dict[str, str]) -> dict[str, str]:
        """Return the git object of each entry, as in Touched; of those beyond NAMES_MAX none is read."""
        until = time.monotonic() + READ_S
        found = {}
        for path in sorted(changed):
            kind = changed[path]
            if kind == REMOVED:
                found[path] = ""
            elif kind == FOLDER:
                found[path] = "/"
            elif len(found) < NAMES_MAX and time.monotonic() < until:
                found[path] = self._object(path)
            else:
                found[path] = UNREAD
        return found

    def _object(self, path: str) -> str:
        """Return the git object of a file or symlink, "" where it has vanished, UNREAD where it cannot be read."""
        folder, name = split(path)
        try:
            at = open_folder(self._root, folder)
        except OSError:
            return UNREAD
        try:
            return _object_at(at, name)
        except FileNotFoundError:
            return ""
        except OSError:
            return UNREAD
        finally:
            os.close(at)


def _object_at(at: int, name: str) -> str:
    info = os.stat(name, dir_fd=at, follow_symlinks=False)
    if stat.S_ISLNK(info.st_mode):
        return blob_id(os.fsencode(os.readlink(name, dir_fd=at)))
    if not stat.S_ISREG(info.st_mode):
        return UNREAD
    fd = os.open(name, _READ, dir_fd=at)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_size > FILE_BYTES_MAX:
            return UNREAD
        return file_id(fd, info.st_size) or UNREAD
    finally:
        os.close(fd)


def _above(path: str) -> Iterator[str]:
    """Yield the folders above a path."""
    while path := split(path)[0]:
        yield path


def _cut(found: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the first entries with their names quoted, as many as fit in an answer."""
    room = NAMES_BYTES_MAX
    for path in sorted(found)[:NAMES_MAX]:
        name = quoted(os.fsencode(path))
        room -= len(json.dumps(name, ensure_ascii=False).encode()) + _NAME_BYTES
        if room < 0:
            return
        yield name, found[path]
