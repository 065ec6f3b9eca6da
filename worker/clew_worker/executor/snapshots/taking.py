"""Takes snapshots: git's own index finds, hashes and writes what has changed; what git does not keep is beside it.

Killed at any point it leaves a store that the next snapshot can use: the index takes the place of the one before when
all objects are durable, and then the ref is written.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

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
from clew_shared.snapshots.entries import LEFT_OUT, modes_text, own_mode
from clew_shared.snapshots.names import quoted
from clew_shared.snapshots.store import (
    EMPTY_TREE,
    FILES,
    SnapshotStore,
    StoreError,
    at,
    git_version,
)
from clew_shared.text.plain import plain
from clew_shared.views import contextdir
from clew_shared.wire.executor import SnapshotDone, SnapshotRequest
from clew_shared.wire.nursery import CellSpec
from clew_worker.executor.snapshots.folders import above, split
from clew_worker.executor.snapshots.git import (
    Budget,
    Git,
    GitFailedError,
    NoRoomError,
    SnapshotError,
)
from clew_worker.executor.snapshots.index import Index, special
from clew_worker.executor.snapshots.rules import IgnoreRules
from clew_worker.executor.snapshots.walk import Walk
from clew_worker.executor.snapshots.writing import DRAFT, StoreWriter
from clew_worker.executor.wire import Wire
from clew_worker.executor.workspace import Workspace
from clew_worker.executor.world.git import GitState, head_commit, objects_and_index
from clew_worker.executor.world.ignored import Ignored

SNAPSHOT_S = 60.0
COUNT_S = 20.0
"""How long a snapshot may take, and counting the changed lines after it; the daemon waits longer for the answer."""

STAGED_S = 5.0
"""How long git may take to tell what is staged."""

_RULES = "ignore.json"


@dataclass
class _Taken:
    """A snapshot: what it holds, what had been seen when it was taken, and what it counted as changed since `base`."""

    kept: set[str]
    left_out: dict[str, str]
    repositories: list[str]
    ignored: list[str] = field(default_factory=list)
    tree: str = ""
    seen: int = -1
    base: str = ""
    changed: ChangeCount = field(default_factory=ChangeCount)


class SnapshotTaker:
    """Takes the snapshots of one workspace."""

    def __init__(self, spec: CellSpec, workspace: Workspace, wire: Wire) -> None:
        self._workspace = workspace
        self._wire = wire
        self._git = spec.git
        self._folder = Path(spec.sandbox.store)
        self._store = SnapshotStore(self._folder, spec.git)
        self._ignore = (*spec.ignore, contextdir.FOLDER)
        self._ignored = Ignored(self._ignore)
        self._root = Path(workspace.root)
        self._state = GitState(self._root)
        self._git_place: GitPlace | None = None
        self._last: _Taken | None = None
        self._writer = StoreWriter(self._store)
        self._used = 0
        self._exclude = str(self._folder / "info" / "exclude")

    def take(self, request: SnapshotRequest, seen: int = -1) -> SnapshotDone:
        """Take a snapshot; the answer states why there is none where that fails.

        `seen` counts what was found changed so far: the last snapshot holds where that is the same. -1 is never.
        """
        budget = Budget(self._wire, SNAPSHOT_S)
        no_room = False
        try:
            return self._take(request, seen, budget)
        except (SnapshotError, StoreError) as error:
            fault, no_room = str(error), isinstance(error, NoRoomError)
        except OSError as error:
            fault = plain(OSError(error.errno, error.strerror))
        self._last = None
        return SnapshotDone(id=request.id, fault=fault, no_room=no_room)

    def _take(self, request: SnapshotRequest, seen: int, budget: Budget) -> SnapshotDone:
        if not (self._folder.name and self._folder.is_dir()):
            raise SnapshotError("there is no store for snapshots")
        if self._workspace.gone:
            raise SnapshotError("the workspace was removed")
        last, before = self._last, self._used
        if last is None or seen < 0 or last.seen != seen or not self._store.exists:
            last, before = self._repaired(request, budget)
            last.seen, self._used = seen, self._writer.used()
        self._count(last, request.base)
        self._last = last
        return SnapshotDone(
            id=request.id,
            tree=last.tree,
            files=len(last.kept),
            bytes=max(self._used - before, 0),
            left_out=tuple(self._left_out(last.left_out)),
            left_out_total=len(last.left_out),
            changed=last.changed,
            git=self._place(),
            inner=self._inner(last.repositories),
            ignored=() if request.base else tuple(_shortest(last.ignored)),
        )

    def _repaired(self, request: SnapshotRequest, budget: Budget) -> tuple[_Taken, int]:
        """Write a snapshot; return it, and what the store had before.

        Where git fails on an index from before, it is done once more without that.
        """
        at(self._folder, self._git or None)
        self._writer.prepare()
        before, had_index = self._writer.used(), self._writer.has_index
        try:
            return self._written(request, before, budget), before
        except GitFailedError:
            if not had_index:
                raise
            return self._written(request, before, budget), before

    def _written(self, request: SnapshotRequest, used: int, budget: Budget) -> _Taken:
        """Bring the index up to date, and write its tree with the modes beside it."""

        def room(used: int = -1) -> None:
            if (self._writer.used() if used < 0 else used) >= request.room_bytes:
                raise NoRoomError("the snapshots have reached [snapshots] max_mb")

        room(used)
        root = self._workspace.fileno()
        prune = partial(Git(self._store, root, budget).run, "prune", "--expire=now")
        with self._writer.draft(prune):
            git = Git(self._store, root, budget, DRAFT)
            streams = git_version(self._git) >= (2, 37)
            index = Index(git, root, request.max_file_bytes, room, streams=streams)
            rules = self._rules(index)
            names = self._fit(index.listed(f"--exclude-from={self._exclude}"))
            if not rules.frozen:
                there = rules.tracked.difference(names)
                rules.freeze(one for one in self._fit(there) if os.path.lexists(self._root / one))
            index.update({*names, *rules.tracked})
            ignored = _ignored(git, self._exclude)
            walk = Walk(root, self._ignored, ignored, index.kept, budget)
            taken = _Taken(index.kept, index.left_out | walk.left_out, walk.repositories)
            taken.ignored = self._fit(ignored)
            modes = modes_text(_modes(walk.modes, taken))
            taken.tree = self._writer.write(git.run("write-tree").decode().strip(), modes)
        return taken

    def _rules(self, index: Index) -> IgnoreRules:
        """Return the rules, collected where there are none yet; git reads them from a file in the store."""
        rules = IgnoreRules(self._folder / _RULES)
        if not rules.frozen:
            names = map(split, index.listed("--exclude-per-directory=.gitignore"))
            written = sorted(folder for folder, name in names if name == ".gitignore")
            inner = sorted(name.rstrip("/") for name in self._fit(index.inner))
            rules.collect(self._workspace.fileno(), self._root, written, ["", *inner])
        more = [f"/{one}" if "/" in one.rstrip("/") else one for one in self._ignore]
        if self._folder.is_relative_to(self._root):
            more.append(f"/{self._folder.relative_to(self._root)}/")
        Path(self._exclude).write_bytes(rules.text(more))
        return rules

    def _fit(self, names: Iterable[str]) -> list[str]:
        """Return the names that are neither git's own nor covered by [loops] ignore."""
        return [name for name in names if not self._is_covered(name)]

    def _is_covered(self, name: str) -> bool:
        above = ""
        for part in name.rstrip("/").split("/"):
            if part.lower() == ".git" or self._ignored.covers(above, part):
                return True
            above += f"{part}/"
        return False

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

    def _count(self, taken: _Taken, base: str) -> None:
        """Count what changed since `base`; where that takes too long nothing is counted."""
        if taken.base == base and taken.base:
            return
        taken.base, taken.changed = base, ChangeCount()
        if base in ("", taken.tree):
            return
        options = ("-r", "-z", "--numstat", "-M", "--no-ext-diff", "--no-textconv")
        git = Git(self._store, self._workspace.fileno(), Budget(self._wire, COUNT_S))
        with contextlib.suppress(SnapshotError):
            taken.changed = _counted(git.run("diff-tree", *options, base, taken.tree, "--", FILES))


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


def _ignored(git: Git, exclude: str) -> set[str]:
    """Return what git ignores: folders, with a slash, for all in them, and files in others.

    git lists a folder in which everything is ignored, too, but then what is in it as well.
    """
    options = ("ls-files", "-z", "-o", "-i", "--directory", f"--exclude-from={exclude}")
    names = sorted(git.names(*options))
    pairs = itertools.zip_longest(names, names[1:], fillvalue="")
    return {name for name, after in pairs if not (name[-1] == "/" and after.startswith(name))}


def _modes(seen: dict[str, int], taken: _Taken) -> dict[str, int]:
    """Return what git does not keep, as in `entries.read_modes`, of all that was seen; note what cannot be kept."""
    found: dict[str, int] = {}
    folders = [path for path, mode in seen.items() if stat.S_ISDIR(mode)]
    holding = above([*taken.kept, *folders])
    for path, mode in seen.items():
        bits = own_mode(mode)
        if kind := special(mode):
            taken.left_out[path] = kind
        elif stat.S_ISDIR(mode) and path not in holding:
            found[path] = mode
        elif bits is not None and (path in taken.kept or stat.S_ISDIR(mode)):
            found[path] = bits
    found |= dict.fromkeys(taken.left_out, LEFT_OUT.mode)
    return {quoted(os.fsencode(path)): mode for path, mode in found.items()}
