"""Reads the contents of the store that a restore needs, many by one run of git."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from functools import cached_property

from clew_shared.snapshots.entries import read_modes
from clew_shared.snapshots.names import unquoted
from clew_shared.snapshots.store import FILES, StoreError
from clew_shared.wire.executor import RestoreEntry
from clew_worker.executor.snapshots.git import Git, SnapshotError

_AT_ONCE_BYTES = 32 * 1024 * 1024


class StoredContents:
    """The contents that entries name. Every method raises SnapshotError."""

    def __init__(self, git: Git, entries: Iterable[RestoreEntry]) -> None:
        self._git = git
        self._wanted = [one.wanted[1] for one in entries if one.wanted and one.wanted[1]]
        present = [one.present[1] for one in entries if one.present]
        self._names = list(dict.fromkeys(filter(None, [*self._wanted, *present])))
        self._read: dict[str, bytes] = {}

    def size(self, name: str) -> int:
        """Return the size of a content, -1 where the store does not have it."""
        return self._sizes.get(name, -1)

    def read(self, name: str) -> bytes:
        """Return a content as the store has it, damaged or not."""
        if self.size(name) < 0:
            raise SnapshotError("the store does not have it")
        if name not in self._read:
            self._read = dict(self._read_from(name))
        return self._read[name]

    def folders(self, tree: str) -> frozenset[bytes]:
        """Return the paths of a snapshot's folders, empty ones too."""
        if not tree:
            return frozenset()
        options = ("ls-tree", "-r", "-d", "-z", "--name-only", tree, f"{FILES}/")
        listed = self._git.run(*options).split(b"\0")
        try:
            modes = read_modes(self._git.store, tree)
        except StoreError as error:
            raise SnapshotError(str(error)) from error
        return frozenset(
            [name.removeprefix(FILES.encode() + b"/") for name in listed if name]
            + [unquoted(name) for name, mode in modes.items() if stat.S_ISDIR(mode)]
        )

    @cached_property
    def _sizes(self) -> dict[str, int]:
        said = self._git.run("cat-file", "--batch-check", data=_lines(self._names)).decode()
        found = (line.split(" ") for line in said.splitlines())
        return {one[0]: int(one[2]) for one in found if len(one) == 3 and one[1] == "blob"}

    def _read_from(self, name: str) -> Iterator[tuple[str, bytes]]:
        """Yield a content and those that are wanted after it, as many as may be held at once."""
        names, size = [name], self.size(name)
        for one in dict.fromkeys(self._wanted[self._wanted.index(name) + 1 :]):
            size += max(self.size(one), 0)
            if size > _AT_ONCE_BYTES:
                break
            if one != name and self.size(one) >= 0:
                names.append(one)
        said, at = self._git.run("cat-file", "--batch", data=_lines(names)), 0
        for one in names:
            begins = said.index(b"\n", at) + 1
            at = begins + self.size(one) + 1
            yield one, said[begins : at - 1]


def _lines(names: Iterable[str]) -> bytes:
    return b"".join(name.encode() + b"\n" for name in names)
