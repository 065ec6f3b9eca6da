"""An executor with a store of snapshots, for the tests of taking and restoring."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from clew_daemon.undo.planning import restoration
from clew_shared.snapshots import store as stores
from clew_shared.snapshots.entries import LEFT_OUT, Reverted, changes, listing
from clew_shared.snapshots.plan import UndoPlan, folders_of
from clew_shared.wire.executor import RestoreRequest, SnapshotRequest

GIT = shutil.which("git") or ""
MB = 1024 * 1024


@dataclass
class Snapshots:
    """An executor, its workspace, and the store that it writes."""

    hands: object
    workspace: Path
    store: stores.SnapshotStore
    asked: int = 1000

    def sh(self, script, **args):
        """Have the executor run a script that must succeed, with a usual umask."""
        git = 'git() { command git -c safe.directory="*" "$@"; }'  # the folder is root's
        done = self.hands.sh(f"umask 022; {git}; {script}", **args)
        assert done.result == "success", done.output

    def size(self):
        """How many bytes the store has."""
        return sum(file.stat().st_size for file in self.store.folder.rglob("*") if file.is_file())

    def ask(self, base="", max_file_bytes=MB, room_bytes=100 * MB, own=False):
        self.asked += 1
        limits = {"max_file_bytes": max_file_bytes, "room_bytes": room_bytes}
        self.hands.send(SnapshotRequest(id=self.asked, own=own, base=base, **limits))

    def take(self, **request):
        """The event of a snapshot, or the answer that says why there is none."""
        self.ask(**request)
        answer = self.hands.receive()
        assert (answer.type, answer.id) == ("snapshot_taken", self.asked)
        return answer.taken or answer

    def tree(self, **request):
        """A snapshot's tree, which is there with all that it holds."""
        answer = self.take(**request)
        check(self.store, answer.tree)
        return answer.tree

    def restore(self, entries):
        self.asked += 1
        self.hands.send(RestoreRequest(id=self.asked, entries=entries))
        answer = self.hands.receive()
        assert (answer.type, answer.id) == ("restored", self.asked)
        return answer

    def changed(self, before, after):
        """Run two scripts with a snapshot after each; return what restores the first one."""
        self.sh(before)
        base = self.tree()
        self.sh(after)
        return self.entries(self.tree(), base)

    def back(self, tree):
        """Restore everything to a snapshot; return the answer."""
        return self.restore(self.entries(self.tree(), tree))

    def entries(self, now, wanted):
        """What restores `wanted` where `now` is there, in its order."""
        found = [
            Reverted(name=name, present=present, wanted=then)
            for name, (present, then) in sorted(changes(self.store, now, wanted).items())
            if LEFT_OUT not in (present, then)
        ]
        kept = frozenset(folders_of(listing(self.store, wanted)))
        return restoration(UndoPlan(tuple(found), kept))

    def listed(self, tree):
        """The names in a snapshot, as they are quoted."""
        found = changes(self.store, "", tree)
        return sorted(name for name, (_, now) in found.items() if now != LEFT_OUT)

    def content(self, tree, name):
        return self.store.blob(f"{tree}:files/{name}")


def check(store, tree):
    """Hold that a tree is there with all that it holds, undamaged: StoreError where it is not."""
    _, complaint = store.run_and_hear("rev-list", "--objects", "--verify-objects", "--quiet", tree)
    if complaint:
        raise stores.StoreError(complaint)


@pytest.fixture
def snapshots(executor, home):
    """Start executors, one after the other, whose goal has a store."""

    def start(git=GIT, **box):
        folder = home / "state" / "store"
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o777)
        hands = executor(store=str(folder), git=git, **box)
        return Snapshots(hands, home / "workspace", stores.SnapshotStore(folder, GIT))

    return start


@pytest.fixture
def one(snapshots):
    """The first of these executors."""
    return snapshots()


def picture(folder):
    """Everything in a folder: kind, permissions, content or target by path, as bytes."""
    found = {}
    todo = [os.fsencode(folder)]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                info = entry.stat(follow_symlinks=False)
                name = os.path.relpath(entry.path, os.fsencode(folder))
                if entry.is_symlink():
                    found[name] = ("link", os.readlink(entry.path))  # noqa: PTH115 - bytes
                elif entry.is_dir():
                    found[name] = ("folder", info.st_mode)
                    todo.append(entry.path)
                elif entry.is_file():
                    found[name] = (info.st_mode, Path(os.fsdecode(entry.path)).read_bytes())
                else:
                    found[name] = (info.st_mode, None)
    return found
