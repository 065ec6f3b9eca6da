"""Whose each change in the workspace is: the goal's, or someone else's (docs/snapshots.md).

The workspace is looked at before and after each action and check. What changed between the two looks is the goal's,
also where it is someone else's who worked in the same moment; what changed from the one after to the next one before
is someone else's.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from clew_shared.record.touched import NAMES_BYTES_MAX, NAMES_MAX, Touched
from clew_shared.snapshots.names import fitting, folders_above, quoted
from clew_worker.executor.world.world import WorldWatch

PENDING_MAX = 100_000
"""More names than this are not collected between two reports; they are counted as "more than was seen"."""

FRESH_S = 0.05
"""A check that begins within this time of a look has none of its own before it: the look after it finds all."""

_NAME_BYTES = 60  # of an entry beside its name: the object, and JSON's signs


class Attribution:
    """What has changed in a workspace since it was last reported, and whose that is.

    `seen` counts the looks that have found changes. `left_running` says whether the goal has left something running.

    A new executor does not know what was done before it: its first look is where it begins. What it missed is visible
    in the snapshot at its start (`anchored`). Until there is one, it is not known whether someone else has changed
    what an action changes again: `foreign_total` is -1. What it missed before action `noted` is known by a note.
    """

    def __init__(
        self, watch: WorldWatch, notes: Path | None = None, left_running: Callable[[], bool] = bool
    ) -> None:
        self._watch = watch
        self._left_running = left_running
        self._looked = -FRESH_S
        self.seen = 0
        self.anchored = False
        self._left = False  # something of that was alive since the last report
        self._notes = notes
        self.noted = 0
        self._own: dict[str, str] | None = {}  # None: there was more than was seen
        self._foreign: set[str] | None = set()
        if notes is not None and notes.exists():
            self._foreign = None
            # also where it is of an earlier version, or all is unknown
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                known = json.loads(notes.read_text())
                self.noted = int(known["action"])
                self._foreign = set(known["foreign"])

    def look(self, *, own: bool = False, restored: Iterable[str] = ()) -> None:
        """Look at the workspace; what has changed since the last look is the goal's (`own`) or someone else's."""
        self._watch.look()
        self.sort(own=own, restored=restored)
        self._looked = time.monotonic()

    def look_before_check(self) -> None:
        """Look, unless the last look has just ended and nothing of the goal runs."""
        if self._left or time.monotonic() - self._looked > FRESH_S:
            self.look()

    def look_before_action(self, action: int) -> None:
        """Look, and note what is someone else's: if this executor dies in the action, the next one reports it."""
        self.look()
        if self._notes is None:
            return
        names = None if self._foreign is None else sorted(self._foreign)
        with contextlib.suppress(OSError):  # on a full disk it is not noted
            place = os.open(self._notes, os.O_WRONLY | os.O_CREAT, 0o600)
            with os.fdopen(place, "wb") as file:  # in place: half of it is no JSON
                file.write(json.dumps({"foreign": names, "action": action}).encode())
                file.truncate()

    def ran(self) -> None:
        """Note that a command has run: it may have left something running, which is no one else."""
        self._left = self._left or self._left_running()

    def sort(self, *, own: bool, restored: Iterable[str] = ()) -> None:
        """Take what the last look has found; see `look`. Quoted names that were `restored` are reported elsewhere."""
        changed = self._watch.changed()
        self.seen += changed is None or bool(changed)
        found = {quoted(os.fsencode(path)): name for path, name in (changed or {}).items()}
        for name in restored:
            for one in (name, *folders_above(name)):
                found.pop(one, None)
        if own and self._own is not None:
            self._own |= found
        elif not own and self._foreign is not None:
            self._foreign |= found.keys()
        if changed is None or len(self._own or ()) + len(self._foreign or ()) > PENDING_MAX:
            if own:
                self._own = None
            else:
                self._foreign = None

    def report(self) -> Touched:
        """Return what has changed since the last report."""
        foreign = self._foreign if self.anchored else None
        touched = Touched(
            own=tuple(_listed((self._own or {}).items())),
            own_total=-1 if self._own is None else len(self._own),
            foreign=tuple(name for name, _ in _listed((name, "") for name in foreign or ())),
            foreign_total=-1 if foreign is None else len(foreign),
            left=self._left,
        )
        self._left = self._left and self._left_running()
        self._own, self._foreign = {}, set()
        return touched


def _listed(found: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the first names with their objects, as many as fit in an answer."""

    def size(one: tuple[str, str]) -> int:
        return len(json.dumps(one[0], ensure_ascii=False).encode()) + _NAME_BYTES

    return fitting(sorted(found), size, NAMES_MAX, NAMES_BYTES_MAX)
