"""One folder of a workspace, as it was last seen."""

from __future__ import annotations

import hashlib

Identity = tuple[int, int]
"""Device and inode."""


class Folder:
    """One folder. `lines` has an entry's name and description by name, `below` the folders in it."""

    __slots__ = ("below", "gone", "identity", "lines", "linked", "name", "parent", "path", "watch")

    def __init__(self, parent: Folder | None, name: str, path: str, identity: Identity) -> None:
        self.parent = parent
        self.name = name
        self.path = path  # from the workspace on, with a slash at the end; "" for itself
        self.identity = identity
        self.lines: dict[str, bytes] = {}
        self.below: dict[str, Folder] = {}
        self.linked: frozenset[str] = frozenset()  # files that have other names, perhaps elsewhere
        self.watch: int | None = None
        self.gone = False

    def digest(self) -> bytes:
        """Return the digest of its entries; the lines of the folders in it must be up to date."""
        whole = b"".join(map(self.lines.__getitem__, sorted(self.lines)))
        return hashlib.blake2b(whole, digest_size=16).digest()
