"""What a snapshot has, entry by entry, and what differs between two."""

from __future__ import annotations

import stat
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from clew_shared.snapshots.names import quoted
from clew_shared.snapshots.store import FILES, MODES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_shared.snapshots.store import SnapshotStore


class Entry(NamedTuple):
    """A file, a symlink or an empty folder: its mode as in `st_mode`, and its git object ("" for a folder)."""

    mode: int
    id: str


LEFT_OUT = Entry(0, "")
"""What a snapshot could not take, like a large file: nothing is known of it, for a folder nor of what is below it."""

Change = tuple[Entry | None, Entry | None]
"""What was there and what is there; None for nothing."""
Changes = dict[str, Change]
"""By quoted name (`names.quoted`), relative to the workspace."""
Listing = dict[str, Entry]
"""The entries of a snapshot by quoted name."""


def listing(store: SnapshotStore, tree: str) -> Listing:
    """Return the entries of a snapshot; "" is the empty one. Raises StoreError. Blocks."""
    found: Listing = {}
    modes = ""
    lines = store.run("ls-tree", "-r", "-z", tree).split(b"\0")[:-1] if tree else []
    for line in lines:
        head, _, name = line.partition(b"\t")
        mode, _, object_id = head.decode().split(" ")
        if name.startswith(FILES.encode() + b"/"):
            found[quoted(name[len(FILES) + 1 :])] = Entry(int(mode, 8), object_id)
        elif name == MODES.encode():
            modes = store.blob(object_id).decode()
    for text in modes.split("\n")[:-1]:
        octal, _, path = text.partition(" ")
        bits = int(octal, 8)
        if stat.S_ISDIR(bits):
            found[path] = Entry(bits, "")
        elif path in found:
            found[path] = found[path]._replace(mode=stat.S_IFREG | bits)
        elif not bits:
            found[path] = LEFT_OUT
    return found


def modes_text(modes: Mapping[str, int]) -> bytes:
    """Return what git does not keep, as it is stored: permissions, empty folders with their type, 0 for LEFT_OUT."""
    return "".join(f"{mode:04o} {name}\n" for name, mode in sorted(modes.items())).encode()


def differences(before: Listing, after: Listing) -> Changes:
    """Return what differs between two snapshots."""
    return {
        name: (before.get(name), after.get(name))
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
    }


def changes(store: SnapshotStore, old: str, new: str) -> Changes:
    """Return what differs between two snapshots by their trees; raises StoreError. Blocks."""
    return {} if old == new else differences(listing(store, old), listing(store, new))


def as_seen(found: Changes) -> Changes:
    """Return changes without folders that are empty only in a snapshot, since it left out what is below them."""
    full = {
        str(folder)
        for name, change in found.items()
        if LEFT_OUT in change
        for folder in PurePosixPath(name).parents
    }
    return {name: change for name, change in found.items() if name not in full}
