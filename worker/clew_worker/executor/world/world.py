"""The digest of the world: equal digests mean that the workspace is as it was.

Files by path, type, executable bit and content; in a git repository HEAD and the index too (docs/adr/0010,
docs/loops.md).
"""

import hashlib
from pathlib import Path

from clew_shared.views import contextdir
from clew_shared.wire.executor import WorldDigest
from clew_worker.executor.world.contents import Contents
from clew_worker.executor.world.git import GitState
from clew_worker.executor.world.ignored import Ignored
from clew_worker.executor.world.tree import Tree

LOOK_S = 10.0
FULL_LOOK_S = 90.0
"""How long a look at the touched names, or at everything, may take. What is not seen by then is left out, and the
world is `partial`. A digest is at most two looks; the daemon waits longer than that for the answer."""


class WorldWatch:
    """Repeated digests of one workspace."""

    def __init__(self, root: str, ignore: tuple[str, ...]) -> None:
        ignored = Ignored((*ignore, contextdir.FOLDER))  # clew's own folder is no part of the world
        self._git = GitState(Path(root))
        self._contents = Contents()
        self._tree = Tree(root, ignored, self._contents)
        self._walked = False

    def close(self) -> None:
        """Release the watches; legal at any time."""
        self._tree.close()

    def digest(self, *, full: bool = True) -> WorldDigest:
        """Digest the workspace as it is now; files that vanish meanwhile are not in it.

        `full`: see `look`.
        """
        self.look(full=full)
        whole = self._tree.digest() + self._git.digest()
        return WorldDigest(
            digest=hashlib.blake2b(whole, digest_size=16).hexdigest(),
            entries=self._tree.entries,
            partial=self._tree.partial,
        )

    def look(self, *, full: bool) -> None:
        """See what is there now: with `full` by every file's stat, otherwise by what the kernel reports as touched."""
        full = full or not self._walked
        budget_s = FULL_LOOK_S if full else LOOK_S
        self._contents.begin(budget_s / 2)
        self._tree.look(full=full, budget_s=budget_s)
        self._walked = True

    def changed(self) -> dict[str, str] | None:
        """Return what has changed between the looks before the last two calls, by path, each with its object.

        As in Touched. None where not everything was seen; the first call returns nothing.
        """
        return self._tree.changed()
