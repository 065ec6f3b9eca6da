"""The world: what is in the workspace, by path, and what has changed since it was last seen.

Equal digests mean that the workspace is as it was. Files by path, type, executable bit and content; in a git repository
HEAD and the index too (docs/adr/0010, docs/loops.md).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from clew_shared.views import contextdir
from clew_shared.wire.executor import WorldDigest
from clew_worker.executor.world.contents import Contents, Seen, stamp_of
from clew_worker.executor.world.git import GitState
from clew_worker.executor.world.ignored import Ignored

FIRST_LOOK_S, LOOK_S = 90.0, 10.0
"""How long a look may take: the first one reads every file. What is not seen by then is left out, and the world is
`partial`; the daemon waits longer than that for the answer."""

ENTRIES_MAX = 250_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK


class WorldWatch:
    """Repeated looks at one workspace."""

    def __init__(self, root: str, ignore: tuple[str, ...]) -> None:
        self._root = root.rstrip("/") + "/"
        self._ignored = Ignored((*ignore, contextdir.FOLDER))  # clew's own is no part of the world
        self._git = GitState(Path(root))
        self._contents = Contents()
        self._budget_s = FIRST_LOOK_S
        self._seen: dict[str, Seen] = {}
        self._partial = False
        self._reported: dict[str, Seen] | None = None
        self._begun = False

    def digest(self) -> WorldDigest:
        """Digest the workspace as it is now; files that vanish meanwhile are not in it."""
        self.look()
        whole = hashlib.blake2b(digest_size=16)
        for path in sorted(self._seen):
            described = self._seen[path].described
            whole.update(b"%d %b\0%b" % (len(described), os.fsencode(path), described))
        whole.update(self._git.digest())
        return WorldDigest(digest=whole.hexdigest(), entries=len(self._seen), partial=self._partial)

    def look(self) -> None:
        """See what is there now."""
        until = time.monotonic() + self._budget_s
        self._contents.begin(self._budget_s / 2)
        self._budget_s = LOOK_S
        found: dict[str, Seen] = {}
        self._partial = False
        folders = [""]
        while folders and not self._partial:
            folders += self._list(folders.pop(), found)
            self._partial = self._partial or time.monotonic() > until
        self._seen = found

    def _list(self, folder: str, found: dict[str, Seen]) -> list[str]:
        """Take in what is in a folder, nothing where it cannot be opened; return the folders in it."""
        below: list[str] = []
        with (
            contextlib.suppress(OSError),
            _opened(self._root + folder) as at,
            os.scandir(at) as entries,
        ):
            for entry in entries:
                if self._ignored.covers(folder, entry.name):
                    continue
                path = folder + entry.name
                seen = self._seen_at(at, entry, self._seen.get(path))
                if seen is not None and len(found) >= ENTRIES_MAX:
                    self._partial = True
                    break
                if seen is not None:
                    found[path] = seen
                    if stat.S_ISDIR(seen.mode):
                        below.append(f"{path}/")
        return below

    def _seen_at(self, at: int, entry: os.DirEntry[str], known: Seen | None) -> Seen | None:
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError:
            return None
        if known is not None and known.stamp and known.stamp == stamp_of(info):
            return known
        return self._contents.describe(at, entry.name, info)

    def changed(self) -> dict[str, str] | None:
        """Return what has changed between the last look before the last call and the last look, by path.

        Each with its object as in Touched. None where not everything was seen; the first call returns nothing.
        """
        before, now = self._reported, self._seen
        self._reported = None if self._partial else now
        if not self._begun:
            self._begun = True
            return {}
        if before is None or self._partial:
            return None
        found = {path: seen.object for path, seen in now.items() if _differ(before.get(path), seen)}
        return found | dict.fromkeys(before.keys() - now.keys(), "")


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int]:
    at = os.open(folder, _FOLDER)
    try:
        yield at
    finally:
        os.close(at)


def _differ(before: Seen | None, now: Seen) -> bool:
    return before is None or before[:2] != now[:2]
