"""What differs between two snapshots, entry by entry."""

from __future__ import annotations

import stat
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from clew_shared.snapshots.names import quoted
from clew_shared.snapshots.store import EMPTY_TREE, FILES, MODES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clew_shared.snapshots.store import SnapshotStore

_DEFAULTS = {0o100644: 0o644, 0o100755: 0o755, 0o120000: 0o777, 0o040000: 0o755}


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


def changes(store: SnapshotStore, old: str, new: str) -> Changes:
    """Return what differs between the trees of two snapshots; "" is the empty one. Raises StoreError. Blocks."""
    if old == new:
        return {}
    before, after = read_modes(store, old), read_modes(store, new)
    raw = _raw(store, old, new)
    others = {n for n in before.keys() | after.keys() if before.get(n) != after.get(n)} - raw.keys()
    closed = {name for name in raw if before.get(name) == 0 or after.get(name) == 0}
    was, now = _listed(store, old, others | closed), _listed(store, new, others | closed)
    raw |= {name: (was.get(name), now.get(name)) for name in others}
    found = {
        name: (
            LEFT_OUT
            if before.get(name) == 0 and name not in was
            else _entry(one, before.get(name)),
            LEFT_OUT if after.get(name) == 0 and name not in now else _entry(two, after.get(name)),
        )
        for name, (one, two) in raw.items()
    }
    return {name: change for name, change in found.items() if change[0] != change[1]}


def as_seen(found: Changes) -> Changes:
    """Return changes without folders that are empty only in a snapshot, since it left out what is below them."""
    full = {
        str(folder)
        for name, change in found.items()
        if LEFT_OUT in change
        for folder in PurePosixPath(name).parents
    }
    return {name: change for name, change in found.items() if name not in full}


def read_modes(store: SnapshotStore, tree: str) -> dict[str, int]:
    """Return what git does not keep, by quoted name: permissions, and empty folders with their type.

    A mode of 0 is that of what is left out, or the permissions of a file or folder that the tree has.
    """
    if not tree:
        return {}
    lines = store.blob(f"{tree}:{MODES}").decode().split("\n")[:-1]
    return {name: int(mode, 8) for mode, _, name in (line.partition(" ") for line in lines)}


def files_of(store: SnapshotStore, tree: str) -> str:
    """Return the name of the tree with a snapshot's files; "" is the empty snapshot. Raises StoreError."""
    if tree and store.run("ls-tree", "-z", tree, FILES):
        return f"{tree}:{FILES}"
    return EMPTY_TREE


def modes_text(modes: Mapping[str, int]) -> bytes:
    """Return the modes as they are stored; see `read_modes`."""
    return "".join(f"{mode:04o} {name}\n" for name, mode in sorted(modes.items())).encode()


def git_mode(mode: int) -> int:
    """Return the mode that git keeps for a `st_mode`."""
    if stat.S_ISDIR(mode):
        return 0o040000
    if stat.S_ISLNK(mode):
        return 0o120000
    return 0o100755 if mode & 0o100 else 0o100644


def own_mode(mode: int) -> int | None:
    """Return the permissions of a `st_mode` where git does not keep them, else None."""
    if stat.S_ISLNK(mode):
        return None
    bits = stat.S_IMODE(mode)
    return None if bits == _DEFAULTS[git_mode(mode)] else bits


_Raw = tuple[int, str] | None
"""Mode and object as git keeps them; None for nothing there."""


def _entry(raw: _Raw, bits: int | None) -> Entry | None:
    """Return the entry with the permissions that it had; `bits` as in `read_modes`."""
    if bits is not None and stat.S_ISDIR(bits):
        return Entry(bits, "")
    if raw is None:
        return None
    kind = stat.S_IFMT(raw[0])
    if stat.S_ISLNK(kind):
        return Entry(kind, raw[1])
    default = _DEFAULTS[raw[0]]
    return Entry(kind | (default if bits is None else bits), "" if stat.S_ISDIR(kind) else raw[1])


def _raw(store: SnapshotStore, old: str, new: str) -> dict[str, tuple[_Raw, _Raw]]:
    """Return what `git diff-tree` lists: files and symlinks."""
    trees = [files_of(store, tree) for tree in (old, new)]
    fields = store.run("diff-tree", "-r", "-z", "--raw", "--no-renames", *trees).split(b"\0")
    found: dict[str, tuple[_Raw, _Raw]] = {}
    for head, name in zip(fields[:-1:2], fields[1::2], strict=True):
        was, now, was_id, now_id, _ = head.removeprefix(b":").decode().split(" ")
        found[quoted(name)] = (_side(was, was_id), _side(now, now_id))
    return found


def _side(mode: str, object_id: str) -> _Raw:
    return (int(mode, 8), object_id) if int(mode, 8) else None


def _listed(store: SnapshotStore, tree: str, names: set[str]) -> dict[str, _Raw]:
    """Return the entries of these names, folders that are not empty too."""
    if not (tree and names):
        return {}
    lines = store.run("ls-tree", "-r", "-t", "-z", files_of(store, tree)).split(b"\0")
    found: dict[str, _Raw] = {}
    for line in lines[:-1]:
        head, _, name = line.partition(b"\t")
        if (text := quoted(name)) in names:
            mode, _, object_id = head.decode().split(" ")
            found[text] = (int(mode, 8), object_id)
    return found
