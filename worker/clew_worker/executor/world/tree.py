"""What is in a workspace, by path, as it was last seen, and what has changed since (docs/adr/0010)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Iterator

from clew_worker.executor.world.contents import Contents, Seen, stamp_of
from clew_worker.executor.world.ignored import Ignored

ENTRIES_MAX = 250_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK


class Tree:
    """One workspace's entries; `partial`: the last look did not see everything."""

    def __init__(self, root: str, ignored: Ignored, contents: Contents) -> None:
        self._root = root.rstrip("/") + "/"
        self._ignored = ignored
        self._contents = contents
        self._seen: dict[str, Seen] = {}
        self._reported: dict[str, Seen] | None = None
        self._begun = False
        self.partial = False

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return len(self._seen)

    def digest(self) -> bytes:
        """Return a digest of all entries by path and description."""
        whole = hashlib.blake2b(digest_size=32)
        for path in sorted(self._seen):
            described = self._seen[path].described
            whole.update(b"%d %b\0%b" % (len(described), os.fsencode(path), described))
        return whole.digest()

    def look(self, budget_s: float) -> None:
        """See what is there now; what is not seen within `budget_s` is left out."""
        until = time.monotonic() + budget_s
        found: dict[str, Seen] = {}
        self.partial = False
        folders = [""]
        while folders and not self.partial:
            folders += self._list(folders.pop(), found)
            self.partial = self.partial or time.monotonic() > until
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
                    self.partial = True
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
        self._reported = None if self.partial else now
        if not self._begun:
            self._begun = True
            return {}
        if before is None or self.partial:
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
