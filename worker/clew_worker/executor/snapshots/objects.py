"""Reads contents from the store, by one `git cat-file` for their sizes and one for themselves."""

from __future__ import annotations

import contextlib
import stat
from typing import TYPE_CHECKING, Self

from clew_shared.snapshots.entries import read_modes
from clew_shared.snapshots.names import unquoted
from clew_shared.snapshots.store import FILES, StoreError
from clew_worker.executor.snapshots.budget import SnapshotError
from clew_worker.executor.snapshots.process import GitProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from clew_shared.snapshots.store import SnapshotStore
    from clew_worker.executor.snapshots.budget import Budget

_CHUNK = 1024 * 1024


class ObjectReader:
    """Contents of a store; git is started when one is asked for. Every method raises SnapshotError."""

    def __init__(self, store: SnapshotStore, budget: Budget) -> None:
        self._store = store
        self._budget = budget
        self._running: dict[str, GitProcess] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._running:
            self._running.popitem()[1].__exit__(kind, error, trace)

    def size(self, name: str) -> int:
        """Return the size of a content, -1 where the store does not have it."""
        return self._asked("--batch-check", name)

    def read(self, name: str) -> Iterator[bytes]:
        """Yield a content in parts; all of it must be read before anything else is asked for."""
        left = self._asked("--batch", name)
        if left < 0:
            raise SnapshotError("the store does not have it")
        with self._ended_on_failure("--batch") as git:
            while left:
                data = git.read_some(min(left, _CHUNK))
                left -= len(data)
                yield data
            git.read_line()

    def folders(self, tree: str) -> frozenset[bytes]:
        """Return the paths of a snapshot's folders, empty ones too."""
        if not tree:
            return frozenset()
        options = ("-r", "-d", "-z", "--name-only", tree, f"{FILES}/")
        with GitProcess(self._store, self._budget, "ls-tree", *options) as git:
            listed = git.finish().split(b"\0")
        try:
            modes = read_modes(self._store, tree)
        except StoreError as error:
            raise SnapshotError(str(error)) from error
        return frozenset(
            [name.removeprefix(FILES.encode() + b"/") for name in listed if name]
            + [unquoted(name) for name, mode in modes.items() if stat.S_ISDIR(mode)]
        )

    def _asked(self, how: str, name: str) -> int:
        """Ask for an object, and return its size, -1 where it is missing or no content."""
        with self._ended_on_failure(how) as git:
            git.write(name.encode() + b"\n")
            answer = git.read_line().split(b" ")
        return int(answer[2]) if len(answer) == 3 and answer[1] == b"blob" else -1

    @contextlib.contextmanager
    def _ended_on_failure(self, how: str) -> Iterator[GitProcess]:
        """Use the process; one that an answer was not read from to its end is of no use any more."""
        if how not in self._running:
            self._running[how] = GitProcess(self._store, self._budget, "cat-file", how)
        try:
            yield self._running[how]
        except BaseException as error:
            self._running.pop(how).__exit__(type(error), error, None)
            raise
