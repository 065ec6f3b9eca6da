"""The digest of the world: equal digests mean that the workspace is as it was.

Files by path, type, executable bit and content; in a git repository HEAD and the index too. A small
workspace is looked at whole each time. In a large one the kernel reports which names were touched, and only those are
looked at, unless a full look is asked for (docs/adr/0010, docs/loops.md).

This module decides when to look at what; `tree` looks, `contents` describes entries, `watches` asks the kernel.
"""

import hashlib
from pathlib import Path

from clew_shared.views import contextdir
from clew_shared.wire.executor import WorldDigest
from clew_worker.executor.world.contents import Contents
from clew_worker.executor.world.git import GitState
from clew_worker.executor.world.ignored import Ignored
from clew_worker.executor.world.tree import Tree
from clew_worker.executor.world.watches import Touched, Watches

LOOK_S = 10.0
FULL_LOOK_S = 90.0
"""How long a look at the touched names, or at everything, may take. What is not seen by then is left out, and the
world is `partial`. A digest is at most two looks; the daemon waits longer than that for the answer."""

_FORGOTTEN_MAX = 10_000  # how many contents of vanished files may be remembered before a sweep


class WorldWatch:
    """Repeated digests of one workspace."""

    def __init__(self, root: str, ignore: tuple[str, ...]) -> None:
        ignored = Ignored((*ignore, contextdir.FOLDER))  # clew's own folder is no part of the world
        self._git = GitState(Path(root))
        self._contents = Contents()
        self._watches = Watches()
        self._tree = Tree(root, ignored, self._contents, self._watches)
        self._walked = self._reported = False

    def close(self) -> None:
        """Release the watches; legal at any time."""
        self._watches.stop()

    def digest(self, *, full: bool = True) -> WorldDigest:
        """Digest the workspace as it is now; files that vanish meanwhile are not in it.

        `full`: see `look`.
        """
        self.look(full=full)
        whole = self._tree.settle() + self._git.digest()
        return WorldDigest(
            digest=hashlib.blake2b(whole, digest_size=16).hexdigest(),
            entries=self._tree.entries,
            partial=self._tree.partial,
        )

    def look(self, *, full: bool) -> None:
        """See what is there now: with `full` by every file's stat, otherwise by what the kernel reports as touched."""
        budget_s = FULL_LOOK_S if full else LOOK_S
        self._contents.begin(budget_s / 2)
        touched = self._touched()
        if touched is not None:
            self._tree.look(touched, () if full else self._watches.blind, LOOK_S)
        if full or touched is None or self._tree.partial:
            self._walk(budget_s)
        if self._tree.partial:
            self._tree.traces.lose()

    def changed(self) -> dict[str, str] | None:
        """Return what has changed between the last look before the last call and the last look, by path.

        Each with its object as in Touched. None where not everything was seen; the first call returns nothing.
        """
        traces, first = self._tree.traces, not self._reported
        found = traces.changed(self._tree.root) if traces.whole else None
        if not self._tree.partial:
            traces.begin()
        self._reported = True
        return {} if first else found

    def _touched(self) -> Touched | None:
        """Return the names that must be looked at, None for everything."""
        if not self._watches.on or not self._walked:
            return None
        touched = self._watches.touched()
        if touched is None:
            self._watches.stop()
            return None
        if self._tree.partial or self._tree.replaced or self._is_cluttered:
            return None
        for folder in self._tree.linked:  # a change through another name is not reported
            names = touched.setdefault(folder, {})
            for name in folder.linked:
                names.setdefault(name, 0)
        return touched

    @property
    def _is_cluttered(self) -> bool:
        return len(self._contents) > 2 * self._tree.entries + _FORGOTTEN_MAX

    def _walk(self, budget_s: float) -> None:
        cluttered, watching = self._is_cluttered, self._watches.on
        if cluttered:
            self._contents.begin_sweep()
        early = self._tree.walk(budget_s)
        began = self._watches.on and not watching
        if began and not self._tree.partial:  # what was listed before that is not watched yet
            self._tree.look({}, early, LOOK_S)
        if cluttered:
            self._contents.end_sweep()
        self._walked = True
