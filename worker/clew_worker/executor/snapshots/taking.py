"""Takes snapshots: looks at the workspace, reads what has changed, and writes that into the store.

Killed at any point it leaves a store that the next snapshot can use: a snapshot exists once git has written its ref,
and what is remembered of it is checked against that ref.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from clew_shared.record.snapshot_events import (
    IGNORED_MAX,
    INNER_MAX,
    LEFT_OUT_MAX,
    STAGED_MAX,
    ChangeCount,
    GitPlace,
    LeftOut,
)
from clew_shared.record.touched import NAMES_BYTES_MAX
from clew_shared.snapshots.names import quoted
from clew_shared.snapshots.store import EMPTY_TREE, FILES, SnapshotStore, StoreError, at
from clew_shared.text.plain import plain
from clew_shared.views import contextdir
from clew_shared.wire.executor import SnapshotDone, SnapshotRequest
from clew_worker.executor.snapshots import commit, memory
from clew_worker.executor.snapshots.budget import Budget, NoRoomError, SnapshotError
from clew_worker.executor.snapshots.changes import Changes
from clew_worker.executor.snapshots.memory import LastSnapshot
from clew_worker.executor.snapshots.process import GitFailedError, GitProcess
from clew_worker.executor.snapshots.rules import IgnoreRules
from clew_worker.executor.snapshots.walk import Listing, Walk, Walked, modes_of
from clew_worker.executor.world.git import GitState, head_commit, objects_and_index
from clew_worker.executor.world.ignored import Ignored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clew_shared.wire.nursery import CellSpec
    from clew_worker.executor.wire import Wire
    from clew_worker.executor.workspace import Workspace

SNAPSHOT_S = 60.0
COUNT_S = 20.0
"""How long a snapshot may take, and counting the changed lines after it; the daemon waits longer for the answer."""

STAGED_S = 5.0
"""How long git may take to tell what is staged."""

_MEMORY = "last.json"
_RULES = "ignore.json"
_SAVE_FROM = (
    100  # files read and found unchanged: reading them again costs more than saving the file
)


class SnapshotTaker:
    """Takes the snapshots of one workspace, and remembers the last one."""

    def __init__(self, spec: CellSpec, workspace: Workspace, wire: Wire) -> None:
        self._workspace = workspace
        self._wire = wire
        self._git = spec.git
        self._folder = Path(spec.sandbox.store)
        self._store = SnapshotStore(self._folder, spec.git)
        self._ignore = list(spec.ignore)
        self._root = Path(workspace.root)
        self._state = GitState(self._root)
        self._git_place: GitPlace | None = None
        self._last: LastSnapshot | None = None
        self._rules: IgnoreRules | None = None

    def take(self, request: SnapshotRequest) -> SnapshotDone:
        """Take a snapshot; the answer states why there is none where that fails."""
        budget = Budget(self._wire, SNAPSHOT_S)
        no_room = False
        try:
            return self._take(request, budget)
        except (SnapshotError, StoreError) as error:
            fault, no_room = str(error), isinstance(error, NoRoomError)
        except OSError as error:
            fault = plain(OSError(error.errno, error.strerror))
        self._last = self._rules = None  # as in the store, whatever was found so far
        return SnapshotDone(id=request.id, fault=fault, no_room=no_room)

    def _take(self, request: SnapshotRequest, budget: Budget) -> SnapshotDone:
        self._prepare()
        last = self._remembered()
        before = commit.packed_bytes(self._store)
        walked = self._walk(last, request.max_file_bytes, budget)
        taken = self._write(walked, last, request, budget)
        self._count(taken, request.base)
        read = sum(map(len, walked.unread.values()))
        if last is None or taken.commit != last.commit or read >= _SAVE_FROM:
            memory.save(self._folder / _MEMORY, taken, self._ignore)
        self._last = taken
        return SnapshotDone(
            id=request.id,
            tree=taken.tree,
            files=len(taken.listing.files),
            bytes=max(commit.packed_bytes(self._store) - before, 0),
            left_out=tuple(self._left_out(walked.listing.left_out)),
            left_out_total=len(walked.listing.left_out),
            changed=taken.changed,
            git=self._place(),
            inner=self._inner(walked.repositories),
            ignored=() if request.base else tuple(_shortest(walked.ignored)),
        )

    def _place(self) -> GitPlace | None:
        """Return where the user's repository stands, with what is staged in it as far as git can tell."""
        now, last = self._state.place(), self._git_place
        if now is None:
            return None
        if last is None or (now.commit, now.index) != (last.commit, last.index):
            names = _staged(self._store, self._root, now.commit)
            shown = tuple(quoted(name) for name in names[:STAGED_MAX]) if names else ()
            total = -1 if names is None else len(names)
            last = now.model_copy(update={"staged": shown, "staged_total": total})
        staged = {"staged": last.staged, "staged_total": last.staged_total}
        self._git_place = now.model_copy(update=staged)
        return self._git_place

    def _inner(self, folders: list[str]) -> dict[str, str]:
        """Return the commits of the repositories below the workspace by quoted path, those of the first."""
        inner = sorted(filter(None, folders))[:INNER_MAX]
        found = {quoted(os.fsencode(one)): head_commit(self._root / one) for one in inner}
        return {name: commit for name, commit in found.items() if commit is not None}

    def _left_out(self, found: dict[str, str]) -> Iterator[LeftOut]:
        """Yield what is left out, as much of it as fits in an answer."""
        for path, name in _fitting(sorted(found)[:LEFT_OUT_MAX]):
            size = 0
            if found[path] == "large":
                with contextlib.suppress(OSError):
                    size = (self._root / path).lstat().st_size
            yield LeftOut(path=name, why=found[path], bytes=size)

    def _prepare(self) -> None:
        """Have a store that can be used; raises SnapshotError, OSError."""
        if not (self._folder.name and self._folder.is_dir()):
            raise SnapshotError("there is no store for snapshots")
        if self._workspace.gone:
            raise SnapshotError("the workspace was removed")
        commit.tidy(self._store)
        if not self._store.exists:
            at(self._folder, self._git or None)
            self._store.make()

    def _remembered(self) -> LastSnapshot | None:
        """Return the last snapshot if the store still has it as it is remembered."""
        last = self._last or memory.load(self._folder / _MEMORY, self._ignore)
        if last is None or commit.commit_of(self._store, last.number) != last.commit:
            return None
        return last

    def _walk(self, last: LastSnapshot | None, max_file_bytes: int, budget: Budget) -> Walked:
        if self._rules is None:
            self._rules = IgnoreRules(self._root, self._folder / _RULES)
        known = last.listing if last else Listing()
        ignored = Ignored((*self._ignore, contextdir.FOLDER))
        walk = Walk(self._workspace.fileno(), ignored, self._rules, known, budget)
        info = self._folder.stat()
        found = walk.look(max_file_bytes, (info.st_dev, info.st_ino))
        self._rules.freeze()
        return found

    def _write(
        self, walked: Walked, last: LastSnapshot | None, request: SnapshotRequest, budget: Budget
    ) -> LastSnapshot:
        """Write what differs from the last snapshot; return the new one, which may be the same."""
        known = last.listing if last else Listing()
        root = self._workspace.fileno()
        changes = Changes(walked, known, root, request.max_file_bytes, budget)
        stream = changes.read()
        first = next(stream, None)
        if last is not None and first is None and not changes.of_modes:
            return replace(last, listing=walked.listing)
        at(self._folder, self._git or None)
        number, after = commit.last_number(self._store) + 1, last.commit if last else ""
        room = request.room_bytes
        try:
            with commit.NewSnapshot(self._store, budget, number, after, room) as new:
                for change in itertools.chain((first,) if first else (), stream):
                    new.write(change)
                name, tree = new.finish(modes_of(walked.listing))
        except SnapshotError as error:
            self._clean_up(forget=isinstance(error, GitFailedError))
            raise
        return LastSnapshot(number, name, tree, walked.listing)

    def _clean_up(self, *, forget: bool) -> None:
        """Remove what an unfinished snapshot has left; `forget` what is remembered, which git may have failed on."""
        with contextlib.suppress(OSError):
            commit.tidy(self._store)
            if forget:
                (self._folder / _MEMORY).unlink(missing_ok=True)

    def _count(self, taken: LastSnapshot, base: str) -> None:
        """Count what changed since `base`; where that takes too long nothing is counted."""
        if taken.base == base and taken.base:
            return
        taken.base, taken.changed = base, ChangeCount()
        if base in ("", taken.tree):
            return
        options = ("-r", "-z", "--numstat", "-M", "--no-ext-diff", "--no-textconv")
        budget = Budget(self._wire, COUNT_S)
        with (
            contextlib.suppress(SnapshotError),
            GitProcess(
                self._store, budget, "diff-tree", *options, base, taken.tree, "--", FILES
            ) as git,
        ):
            taken.changed = _counted(git.finish())


@dataclass(frozen=True)
class _UsersIndex(SnapshotStore):
    """A user's index and objects, read with the config of a store."""

    objects: Path
    index: Path

    def environment(self) -> dict[str, str]:
        own = {"GIT_OBJECT_DIRECTORY": str(self.objects), "GIT_INDEX_FILE": str(self.index)}
        return super().environment() | own


def _staged(store: SnapshotStore, root: Path, commit: str) -> list[bytes] | None:
    """Return the names whose entry in the index is not as in a commit; None where that cannot be told."""
    places = objects_and_index(root)
    if places is None:
        return None
    options = ("--cached", "--name-only", "--no-renames", "-z")
    try:
        found = _UsersIndex(store.folder, store.git, *places).run(
            "diff-index", *options, commit or EMPTY_TREE, "--", deadline_s=STAGED_S
        )
    except StoreError:
        return None
    return found.split(b"\0")[:-1]


def _counted(numstat: bytes) -> ChangeCount:
    """Count files and lines; a renamed file is one, and a binary one has no lines."""
    files = added = removed = 0
    fields = iter(numstat.split(b"\0")[:-1])
    for text in fields:
        plus, minus, name = text.split(b"\t", 2)
        files += 1
        added += int(plus) if plus != b"-" else 0
        removed += int(minus) if minus != b"-" else 0
        if not name:  # renamed: both names follow
            next(fields)
            next(fields)
    return ChangeCount(files=files, added=added, removed=removed)


def _shortest(ignored: list[str]) -> Iterator[str]:
    """Yield the ignored names that lie highest, as many as fit in an answer."""
    names = heapq.nsmallest(IGNORED_MAX, ignored, key=lambda path: (path.count("/"), path))
    return (name for _, name in _fitting(names))


def _fitting(paths: list[str]) -> Iterator[tuple[str, str]]:
    """Yield paths with their quoted names, as many as fit in an answer."""
    room = NAMES_BYTES_MAX
    for path in paths:
        name = quoted(os.fsencode(path))
        room -= len(name.encode())
        if room < 0:
            return
        yield path, name
