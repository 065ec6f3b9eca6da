"""What a snapshot has, entry by entry, and what differs between two."""

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from clew_shared.snapshots.names import quoted
from clew_shared.snapshots.store import FILES, MODES, SnapshotStore


class Entry(NamedTuple):
    """A file or a symlink: its mode as in `st_mode`, and its git object.

    An empty folder ("") only says that it was there: as in git, no change is one of folders.
    """

    mode: int
    id: str

    @property
    def git_mode(self) -> int:
        """The mode that git has for it, which knows of permissions only whether a file can be run."""
        kind = stat.S_IFMT(self.mode)
        return kind | (0o755 if self.mode & 0o100 else 0o644) if kind == stat.S_IFREG else kind


LEFT_OUT = Entry(0, "")
"""What a snapshot could not take, like a large file: nothing is known of it, for a folder nor of what is below it."""

Change = tuple[Entry | None, Entry | None]
"""What was there and what is there; None for nothing."""
Changes = dict[str, Change]
"""By quoted name (`names.quoted`), relative to the workspace."""
Listing = dict[str, Entry]
"""The entries of a snapshot by quoted name."""

Reason = Literal["", "shared", "unknown", "later", "left_out", "repository"]
"""Why a change of the goal is left: someone else changed the file too, clew cannot know whether someone did, it was
changed again afterwards, a snapshot does not have it (or what is in its folder), or it is a git repository."""


@dataclass(frozen=True, slots=True)
class Reverted:
    """One entry that the goal changed: `present` is what is there, `wanted` what was there before.

    It is restored, or left as it is for a `reason`. A repository that is left is one entry, by its folder.
    """

    name: str
    present: Entry | None
    wanted: Entry | None
    reason: Reason = ""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder that is removed where it is empty."""
        return self.wanted is None and self.present is not None and stat.S_ISDIR(self.present.mode)

    @property
    def is_gone(self) -> bool:
        """Whether it is not there any more, and no snapshot has it as it was."""
        return self.present is None and self.wanted == LEFT_OUT


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
    """Return what differs between two snapshots, but for folders."""
    names = (name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    found = {name: (file_of(before.get(name)), file_of(after.get(name))) for name in names}
    return {name: change for name, change in found.items() if change != (None, None)}


def file_of(entry: Entry | None) -> Entry | None:
    """Return an entry, None for an empty folder."""
    return None if entry and stat.S_ISDIR(entry.mode) else entry


def changes(store: SnapshotStore, old: str, new: str) -> Changes:
    """Return what differs between two snapshots by their trees; raises StoreError. Blocks."""
    return {} if old == new else differences(listing(store, old), listing(store, new))
