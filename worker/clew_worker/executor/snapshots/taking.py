"""Takes snapshots: git's own index finds, hashes and writes what has changed; what git does not keep is beside it.

Killed at any point it leaves a store that the next snapshot can use: a draft of the index takes the place of the one
before when all objects are durable.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from clew_shared.files import closing
from clew_shared.record.snapshot_events import LEFT_OUT_MAX, LeftOut, SnapshotTaken
from clew_shared.record.touched import NAMES_BYTES_MAX
from clew_shared.snapshots.entries import modes_text
from clew_shared.snapshots.names import fitting, quoted
from clew_shared.snapshots.store import (
    FILES,
    MODES,
    GitFailedError,
    SnapshotStore,
    StoreError,
    StoreSlowError,
    at,
    bytes_used,
)
from clew_shared.text.plain import plain
from clew_shared.views import contextdir
from clew_shared.wire.executor import SnapshotDone, SnapshotRequest
from clew_shared.wire.nursery import CellSpec
from clew_worker.executor.snapshots.index import IgnoreRules, Index, NoRoomError
from clew_worker.executor.workspace import Workspace
from clew_worker.executor.world.git import GitState
from clew_worker.executor.world.world import Ignored
from clew_worker.sandbox import kernel

TRIES = 3
SNAPSHOT_S = 60.0  # How long a snapshot may take; the daemon waits longer for the answer

_RULES = "ignore.json"
_INDEX, _DRAFT = "index", "index.new"


def _shown(names: Iterable[str]) -> list[str]:
    """Return the first names, as many as fit in an answer."""
    return fitting(names, lambda name: len(name.encode()), LEFT_OUT_MAX, NAMES_BYTES_MAX)


class SnapshotTaker:
    """Takes the snapshots of one workspace."""

    def __init__(self, spec: CellSpec, workspace: Workspace) -> None:
        self._workspace = workspace
        self._git = spec.git
        self._folder = Path(spec.sandbox.store)
        self._store = SnapshotStore(self._folder, spec.git)
        self._ignore = (*spec.ignore, contextdir.FOLDER)
        self._ignored = Ignored(self._ignore)
        self._root = Path(workspace.root)
        self._state = GitState(self._root)
        self._last: SnapshotTaken | None = None
        self._seen = -1
        self._exclude = self._folder / "info" / "exclude"

    def is_outdated(self, seen: int) -> bool:
        """Return whether there is a last snapshot, and it is known that it does not hold; `seen` as in `take`."""
        return self._last is not None and self._seen not in (-1, seen)

    def take(self, request: SnapshotRequest, seen: int = -1) -> SnapshotDone:
        """Take a snapshot; the answer states why there is none where that fails.

        `seen` counts what was found changed so far: the last snapshot holds where that is the same. -1 is never.
        """
        no_room = False
        try:
            return SnapshotDone(id=request.id, taken=self._take(request, seen))
        except StoreError as error:
            fault, no_room = str(error), isinstance(error, NoRoomError)
        except OSError as error:
            fault = plain(OSError(error.errno, error.strerror))
        self._last = None
        with contextlib.suppress(OSError):
            self._tidy()
        return SnapshotDone(id=request.id, fault=fault, no_room=no_room)

    def _take(self, request: SnapshotRequest, seen: int) -> SnapshotTaken:
        if not (self._folder.name and self._folder.is_dir()):
            raise StoreError("there is no store for snapshots")
        if self._workspace.gone:
            raise StoreError("the workspace was removed")
        last, grew = self._last, 0
        if last is None or seen < 0 or self._seen != seen or not self._store.exists:
            at(self._folder, self._git or None)
            with contextlib.suppress(PermissionError):  # another user's
                self._folder.chmod(0o700)  # a command can change it, but neither read nor write it
            if not self._store.exists:
                self._store.make()
            before = bytes_used(self._folder / "objects")
            last = self._made(request, before)
            self._last, self._seen = last, seen
            grew = max(bytes_used(self._folder / "objects") - before, 0)
        now = {
            "bytes": grew,
            "git": self._state.place(),
            "ignored": () if request.base else last.ignored,
        }
        return last.model_copy(update=now)

    def _made(self, request: SnapshotRequest, used: int) -> SnapshotTaken:
        """Write a snapshot; if git fails, as where a file is cut that it has mapped, try again with a new index."""
        store = self._store.within(SNAPSHOT_S)
        for _ in range(TRIES - 1):
            with contextlib.suppress(GitFailedError):
                return self._drafted(store, request, used)
            (self._folder / _INDEX).unlink(missing_ok=True)
        return self._drafted(store, request, used)

    def _tidy(self) -> None:
        """Remove what a git that was killed or found no room has left."""
        for left in (f"{_DRAFT}.lock", "objects/pack/tmp_*") if self._folder.name else ():
            for path in self._folder.glob(left):
                path.unlink(missing_ok=True)

    def _drafted(self, store: SnapshotStore, request: SnapshotRequest, used: int) -> SnapshotTaken:
        """Bring a draft of the index up to date, and write its tree; one that took too long is kept for the next."""
        draft, index = self._folder / _DRAFT, self._folder / _INDEX
        self._tidy()
        draft.unlink(missing_ok=True)
        if index.exists():
            shutil.copy2(index, draft)  # with its time, by which git knows what it must read again
        root = self._workspace.fileno()
        git = replace(store, index=str(draft), work_tree=f"/proc/self/fd/{root}")
        room = request.room_bytes - used
        try:
            index_of = Index(git, root, self._covers, request.max_file_bytes, room)
            taken = self._written(git, index_of, request.base)
        except StoreSlowError:
            self._keep_draft()
            raise
        self._keep_draft(is_durable=bool(self._last and self._last.tree == taken.tree))
        return taken

    def _written(self, git: SnapshotStore, index: Index, base: str) -> SnapshotTaken:
        rules = self._rules(index)
        option = f"--exclude-from={self._exclude}"
        names, _ = index.changed(option)
        if not rules.frozen:
            more = (one for one in rules.tracked.difference(names) if not self._covers(one))
            rules.freeze(one for one in more if os.path.lexists(self._root / one))
        index.update({*names, *rules.tracked})
        count, modes = index.modes(option)
        files = git.run("write-tree").decode().strip()
        beside = git.run("hash-object", "-w", "--stdin", data=modes_text(modes)).decode().strip()
        entries = f"040000 tree {files}\t{FILES}\n100644 blob {beside}\t{MODES}\n"
        tree = git.run("mktree", data=entries.encode()).decode().strip()
        left_out = {quoted(os.fsencode(path)): why for path, why in sorted(index.left_out.items())}
        ignored = (quoted(os.fsencode(path)) for path in (() if base else index.ignored(option)))
        return SnapshotTaken(
            tree=tree,
            files=count,
            left_out=tuple(
                LeftOut(path=name, why=left_out[name][0], bytes=left_out[name][1])
                for name in _shown(left_out)
            ),
            left_out_total=len(left_out),
            ignored=tuple(_shown(ignored)),
        )

    def _keep_draft(self, *, is_durable: bool = False) -> None:
        """Make all that was written durable, and only then have the draft as the index."""
        if not is_durable:
            with closing(os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)) as fd:
                kernel.sync_disk(fd)
        with contextlib.suppress(FileNotFoundError):  # nothing was ever in it
            (self._folder / _DRAFT).replace(self._folder / _INDEX)

    def _rules(self, index: Index) -> IgnoreRules:
        """Return the rules, collected where there are none yet; git reads them from a file in the store."""
        rules = IgnoreRules(self._folder / _RULES)
        if not rules.frozen:
            names, inner = index.changed("--exclude-per-directory=.gitignore")
            found = (name.rpartition("/") for name in names)
            written = sorted(folder for folder, _, name in found if name == ".gitignore")
            below = sorted(name.rstrip("/") for name in inner if not self._covers(name))
            rules.collect(self._workspace.fileno(), self._root, written, ["", *below])
        more = [f"/{one}" if "/" in one.rstrip("/") else one for one in self._ignore]
        if self._folder.is_relative_to(self._root):
            more.append(f"/{self._folder.relative_to(self._root)}/")
        self._exclude.write_bytes(rules.text(more))
        return rules

    def _covers(self, name: str) -> bool:
        """Return whether a name is git's own, or covered by [loops] ignore."""
        above = ""
        for part in name.rstrip("/").split("/"):
            if part.lower() == ".git" or self._ignored.covers(part, above + part):
                return True
            above += f"{part}/"
        return False
