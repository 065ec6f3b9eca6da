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

FIRST_LOOK_S, LOOK_S = 90.0, 10.0
"""How long a look may take: the first one reads every file. What is not seen by then is left out, and the world is
`partial`; the daemon waits longer than that for the answer."""


class WorldWatch:
    """Repeated digests of one workspace."""

    def __init__(self, root: str, ignore: tuple[str, ...]) -> None:
        ignored = Ignored((*ignore, contextdir.FOLDER))  # clew's own folder is no part of the world
        self._git = GitState(Path(root))
        self._contents = Contents()
        self._tree = Tree(root, ignored, self._contents)
        self.changed = self._tree.changed
        self._budget_s = FIRST_LOOK_S

    def digest(self) -> WorldDigest:
        """Digest the workspace as it is now; files that vanish meanwhile are not in it."""
        self.look()
        whole = self._tree.digest() + self._git.digest()
        return WorldDigest(
            digest=hashlib.blake2b(whole, digest_size=16).hexdigest(),
            entries=self._tree.entries,
            partial=self._tree.partial,
        )

    def look(self) -> None:
        """See what is there now."""
        self._contents.begin(self._budget_s / 2)
        self._tree.look(self._budget_s)
        self._budget_s = LOOK_S
