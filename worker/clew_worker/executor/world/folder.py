"""One folder of a workspace, as it was last seen."""

from __future__ import annotations

import hashlib

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
