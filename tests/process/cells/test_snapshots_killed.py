"""An executor killed in the middle of a snapshot or a restore: the next one completes, and is right."""

import importlib
import itertools
import os
import shutil
import signal

import pytest
from snapshots import GIT, MB, check, order, picture

from clew_shared.snapshots.entries import changes
from clew_shared.snapshots.store import SnapshotStore
from clew_shared.wire.executor import RestoreEntry, RestoreRequest, SnapshotRequest
from clew_shared.wire.nursery import CellSpec, SandboxSpec
from clew_worker.executor.snapshots.restoring import Restorer
from clew_worker.executor.snapshots.taking import SnapshotTaker
from clew_worker.executor.workspace import Workspace

pytestmark = pytest.mark.skipif(not GIT, reason="git is not installed")

_HERE = "clew_worker.executor.snapshots"
TAKING = {
    "store.make": "clew_shared.snapshots.store:SnapshotStore.make",
    "rules.freeze": f"{_HERE}.rules:IgnoreRules.freeze",
    "git": "clew_shared.snapshots.store:SnapshotStore.run_and_hear",
    "sync": "clew_worker.sandbox.kernel:sync_disk",
    "path.replace": "pathlib:Path.replace",
}
RESTORING = {
    "contents": f"{_HERE}.restoring:Contents.read",
    "put": f"{_HERE}.restoring:_Place.put",
    "os.rename": "os:rename",
    "os.unlink": "os:unlink",
    "os.mkdir": "os:mkdir",
    "os.rmdir": "os:rmdir",
    "os.fchmod": "os:fchmod",
    "os.fsync": "os:fsync",
    "os.symlink": "os:symlink",
}
HITS = (1, 3, 6)


class Goal:
    """A workspace and its store, used without a cell."""

    def __init__(self, folder):
        self.workspace = folder / "workspace"
        self.store = SnapshotStore(folder / "store", GIT)
        for one in (self.workspace, self.store.folder):
            one.mkdir()
        self.open = Workspace(str(self.workspace))
        box = SandboxSpec(workspace=str(self.workspace), store=str(self.store.folder))
        self.spec = CellSpec(kind="executor", sandbox=box, cwd=str(self.workspace), env={}, git=GIT)
        self.args = self.spec, self.open

    def close(self):
        self.open.close()

    def take(self):
        request = SnapshotRequest(id=1, max_file_bytes=MB, room_bytes=100 * MB)
        answer = SnapshotTaker(*self.args).take(request)
        assert answer.fault == ""
        check(self.store, answer.tree)
        return answer.tree

    def entries(self, now, wanted):
        found = changes(self.store, now, wanted).items()
        all_of_them = [
            RestoreEntry(name=name, present=present, wanted=then) for name, (present, then) in found
        ]
        return tuple(sorted(all_of_them, key=order))

    def restore(self, tree, entries):
        return Restorer(*self.args).restore(RestoreRequest(id=1, tree=tree, entries=entries))


@pytest.fixture
def goal(tmp_path):
    one = Goal(tmp_path)
    yield one
    one.close()


def killed(work, target, side, hit):
    """Whether a process that does `work` was killed before or after it called a function for this time."""
    child = os.fork()
    if child == 0:
        try:
            arm(target, side, hit)
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def arm(target, side, hit):
    module, _, path = target.partition(":")
    owner = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    real, count = getattr(owner, name), itertools.count(1)

    def wrapped(*args, **named):
        if side == "before" and next(count) == hit:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **named)  # a call that raises, like a removal of nothing, has no after
        if side == "after" and next(count) == hit:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, wrapped)


def first_state(folder):
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "empty").mkdir()
    for n in range(5):
        (folder / "a" / f"file{n}").write_text(f"{n}\n")
    (folder / "link").symlink_to("a")
    (folder / "turned").write_text("a file\n")
    (folder / "other").mkdir()
    (folder / "other" / "in").write_text("x\n")
    (folder / ".gitignore").write_text("*.o\n")
    (folder / "x.o").write_text("ignored\n")


def second_state(folder):
    for n in range(3):
        (folder / "a" / f"file{n}").write_text(f"changed {n}\n")
    (folder / "a" / "file3").unlink()
    (folder / "link").unlink()
    (folder / "link").symlink_to("nowhere")
    (folder / "a" / "b").rmdir()
    (folder / "turned").unlink()
    (folder / "turned" / "deep").mkdir(parents=True)
    (folder / "turned" / "deep" / "new").write_text("new\n")
    shutil.rmtree(folder / "other")
    (folder / "other").write_text("a file now\n")
    (folder / "run").write_text("x\n")
    (folder / "run").chmod(0o755)
    (folder / "a" / "file4").chmod(0o600)


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("point", TAKING)
def test_a_snapshot_after_one_that_was_killed_is_right(goal, tmp_path, point, side):
    first_state(goal.workspace)
    strikes = [killed(goal.take, TAKING[point], side, hit) for hit in HITS]
    one = goal.take()
    second_state(goal.workspace)
    strikes += [killed(goal.take, TAKING[point], side, hit) for hit in HITS]
    two = goal.take()
    assert any(strikes)
    assert (one, two) == expected(tmp_path)


def expected(tmp_path):
    """The trees of both states in a life without a kill."""
    folder = tmp_path / "undisturbed"
    folder.mkdir()
    other = Goal(folder)
    first_state(other.workspace)
    one = other.take()
    second_state(other.workspace)
    two = other.take()
    other.close()
    return one, two


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("point", RESTORING)
def test_a_restore_that_was_killed_is_completed_by_the_same_request(goal, point, side):
    first_state(goal.workspace)
    before, base = picture(goal.workspace), goal.take()
    second_state(goal.workspace)
    after, now = picture(goal.workspace), goal.take()
    strikes = []
    for wanted, entries, look in (
        (base, goal.entries(now, base), before),
        (now, goal.entries(base, now), after),
    ):

        def work(wanted=wanted, entries=entries):
            goal.restore(wanted, entries)

        strikes += [killed(work, RESTORING[point], side, hit) for hit in (1, 2, 3, 4)]
        answer = goal.restore(wanted, entries)
        assert (answer.left, answer.faults) == ((), {})
        assert picture(goal.workspace) == look
    assert any(strikes)
