"""Undo with real files, a real executor and real snapshots: the goal's changes go, and everyone else's stay.

Like test_undo_plan.py, but what belongs to whom is what the executor has found out.
"""

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.process.cells.snapshots import picture as everything

from clew_daemon.undo.planning import restoration
from clew_shared.record import events as ev
from clew_shared.record.snapshot_events import SnapshotTaken
from clew_shared.snapshots.names import quoted, unquoted
from clew_shared.snapshots.plan import listed, plan
from clew_shared.snapshots.store import SnapshotStore
from clew_shared.wire.executor import (
    CheckRequest,
    DigestRequest,
    RestoreRequest,
    RunRequest,
    SnapshotRequest,
    read_answer,
    to_line,
)
from clew_shared.wire.nursery import CellSpec, SandboxSpec
from clew_worker.executor import server

GIT = shutil.which("git") or ""
pytestmark = pytest.mark.skipif(not GIT, reason="git is not installed")
MB = 1024 * 1024
DEADLINE_S = 60.0

NAMES = st.sampled_from([b"a", b"b", b"d", b"d/e", b"d/f", b"g/h/i", b"odd\n'\xff\"", b"skipped/x"])
TEXTS = st.sampled_from([b"", b"one", b"two"])
EDITS = st.one_of(
    st.tuples(st.just("write"), NAMES, TEXTS),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("link"), NAMES, NAMES),
    st.tuples(st.just("mode"), NAMES, st.sampled_from([b"600", b"644", b"755", b"700"])),
    st.tuples(st.just("folder"), NAMES),
    st.tuples(st.just("move"), NAMES, NAMES),
    st.tuples(st.just("swap"), NAMES),
)
PARTS = st.lists(EDITS, min_size=1, max_size=3)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("act"), PARTS),
        st.tuples(st.just("act"), PARTS),
        st.tuples(st.just("check"), PARTS),
        st.tuples(st.just("someone"), PARTS),
        st.tuples(st.just("look"), st.none()),
        st.tuples(st.just("snapshot"), st.none()),
        st.tuples(st.just("restart"), st.none()),
    ),
    min_size=2,
    max_size=8,
)


def command(edit):
    """The lines of a shell script that make one edit; it may fail, as anyone's commands may."""
    kind, *words = edit
    one, other = ([b"'" + word.replace(b"'", b"'\\''") + b"'" for word in words] + [b""])[:2]
    above = b'mkdir -p "$(dirname %s)" && ' % one
    return {
        "write": above + b"printf %s > " % other + one,
        "remove": b"rm -rf " + one,
        "link": above + b"ln -sfn %s %s" % (other, one),
        "mode": b"chmod %s %s && chmod u+X %s" % (other, one, one),  # a folder stays passable
        "folder": b"mkdir -p " + one,
        "move": b"mv -T %s %s" % (one, other),
        "swap": b"rm -rf %s; %s mkdir %s; printf new > %s/new" % (one, above, one, one),
    }[kind] + b" 2>/dev/null\n"


def picture(folder):
    """All that is in a folder by name, but what is ignored: kind, permissions, content or target."""
    return {n: what for n, what in everything(folder).items() if n.split(b"/")[0] != b"skipped"}


def files(found):
    """Those of a picture that are no folders: an undo is about nothing else."""
    return {name: what for name, what in found.items() if what[0] != "folder"}


class Executor:
    """A real executor in a process of its own; its methods are the daemon's requests."""

    def __init__(self, spec):
        ours, theirs = socket.socketpair()
        ours.settimeout(DEADLINE_S)
        self.pid = os.fork()
        if not self.pid:
            ours.close()
            os._exit(server.main(spec, theirs, -1))
        theirs.close()
        self._socket, self._lines = ours, ours.makefile("rb")
        assert read_answer(self._lines.readline()).type == "ready"

    def ask(self, request):
        self._socket.sendall(to_line(request))
        return read_answer(self._lines.readline())

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._lines.close()
        self._socket.close()


class Goal:
    """A goal at work: its workspace, its executor, what is on record, and what really happened."""

    def __init__(self, base):
        self.base = base
        self.workspace = base / "workspace"
        self.store = SnapshotStore(base / "store", GIT)
        self.rows = []
        self.by_goal, self.by_others = set(), set()
        for folder in (self.workspace, self.store.folder, base / "private", self.workspace / "d"):
            folder.mkdir()
        for name, text in (("a", "zero"), ("d/e", "zero"), ("d/f", "zero")):
            (self.workspace / name).write_text(text)
        (self.workspace / "empty").mkdir()
        self.picture = self.first = picture(self.workspace)
        self.start()

    def start(self):
        """Start an executor as the daemon does: a look, and then a snapshot."""
        spec = CellSpec(
            kind="executor",
            sandbox=SandboxSpec(workspace=str(self.workspace), store=str(self.store.folder)),
            cwd=str(self.workspace),
            env={"PATH": os.defpath, "TMPDIR": str(self.base / "private")},
            git=GIT,
            ignore=("skipped",),
        )
        self.executor = Executor(spec)
        self.look()
        self.snapshot()

    def record(self, event):
        self.rows.append((len(self.rows) + 1, event))

    def script(self, edits):
        file = self.base / "script"
        file.write_bytes(b"".join(map(command, edits)) + b"true\n")
        return f"sh {shlex.quote(str(file))}"

    def took_place(self, by):
        before, self.picture = self.picture, picture(self.workspace)
        names = before.keys() | self.picture.keys()
        by |= {n for n in names if before.get(n) != self.picture.get(n)}

    def act(self, edits):
        self.took_place(self.by_others)
        args = {"cmd": self.script(edits)}
        done = self.executor.ask(RunRequest(id=1, seq=1, tool="run_cmd", args=args, timeout_s=60))
        assert done.result == "success", done
        self.record(ev.ActionFinished(of=1, result="success", outcome="", touched=done.touched))
        self.took_place(self.by_goal)

    def check(self, edits):
        self.took_place(self.by_others)
        done = self.executor.ask(CheckRequest(id=1, name="check", cmd=self.script(edits)))
        assert done.result == "success", done
        self.took_place(self.by_goal)

    def someone(self, edits):
        """What is changed and changed back before anyone looks has not happened."""
        subprocess.run(self.script(edits), shell=True, cwd=self.workspace, check=True)

    def look(self, _=None):
        self.took_place(self.by_others)
        self.executor.ask(DigestRequest(id=1))

    def snapshot(self, _=None):
        self.took_place(self.by_others)
        done = self.executor.ask(SnapshotRequest(id=1, max_file_bytes=MB, room_bytes=100 * MB))
        assert done.taken, done
        self.record(SnapshotTaken(tree=done.taken.tree, touched=done.taken.touched))

    def restart(self, _=None):
        """End the executor in order, and start another: what it has not reported is lost with a killed one."""
        self.snapshot()
        self.executor.kill()
        self.start()

    def undo(self):
        """Take a snapshot of the present, and restore what the plan says; return the plan."""
        self.snapshot()
        found = plan(self.rows, listed(self.store), 1)
        done = self.executor.ask(RestoreRequest(id=1, entries=restoration(found)))
        assert (done.left, done.faults) == ((), {})
        return found


@contextlib.contextmanager
def at_work():
    base = Path(tempfile.mkdtemp(prefix="undo-"))
    goal = Goal(base)
    try:
        yield goal
    finally:
        goal.executor.kill()
        shutil.rmtree(base)


def near(name, others):
    """Whether a name is one of others, or in the same branch as one: what is there depends on both."""
    return any(
        name == one or one.startswith(name + b"/") or name.startswith(one + b"/") for one in others
    )


def reverts_only_the_goals(events):
    with at_work() as goal:
        for kind, edits in events:
            getattr(goal, kind)(edits)
        before, first = files(picture(goal.workspace)), files(goal.first)
        found = goal.undo()
        goal.picture = picture(goal.workspace)
        after = files(goal.picture)
        for name in before.keys() | after.keys() | first.keys():
            text = quoted(name)
            if name in goal.by_others:
                assert after.get(name) == before.get(name), f"someone else's change of {text}"
            elif not near(name, goal.by_others):
                assert after.get(name) == first.get(name), f"the goal's change of {text}"
        goal.snapshot()
        assert goal.rows[-1][1].touched.foreign == (), "a restore is not someone else's"
        left = {unquoted(one.name) for one in found.left}
        assert left <= {name for name in goal.by_goal if near(name, goal.by_others)}


@pytest.mark.timeout(600)
@settings(  # the same examples in each run; `make test-long` looks for new ones
    max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
@given(EVENTS)
@example([("look", None), ("act", [("remove", b"a"), ("folder", b"a")])])
def test_undo_reverts_on_disk_exactly_what_only_the_goal_has_changed(events):
    reverts_only_the_goals(events)


@pytest.mark.long
@settings(
    max_examples=int(os.environ.get("ROUNDS", "300")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(EVENTS)
def test_undo_reverts_on_disk_what_only_the_goal_has_changed_in_many_runs(events):
    reverts_only_the_goals(events)
