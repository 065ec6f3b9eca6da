"""The daemon, or its executor, killed at every labelled point of an undo: it is completed, and no one's work is lost.

One home is used by all tests: its goal has ended, and each undo reverts the one before it.
"""

import itertools
import shutil
import signal
import socket
import subprocess
import sys

import aftermath
import pointed
import points
import pytest
from harness import DEADLINE_S, Clew, forge
from of_proc import become_subreaper
from ordinary import give

from clew_daemon.reading.client import NoDaemon
from clew_daemon.reading.errors import CliError
from surroundings import runbook

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")

WORK = (
    "echo hot > water; rm cup; mkdir shelf; mv spoon shelf; "
    "chmod 600 recipe; echo new > pot; echo goal >> shared"
)
NAMES = ("water", "cup", "spoon", "recipe", "notes", "shared")
TWO_AT_A_TIME = {"clew_daemon.undo.undo:RESTORE_MAX": 2}


def points_of(*some, quick=0, facts=()):
    """Parameters of a test: points, hits and facts, of which all but the first `quick` are for `make chaos` only."""
    return [
        pytest.param(*one.split(), *facts, marks=[pytest.mark.long] if n >= quick else [])
        for n, one in enumerate(some)
    ]


STRUCK = [
    *points_of(
        *("undo.snapshot.before 1", "undo.snapshot.after 1", "undo.begin.before 1"),
        facts=(False, False),
    ),
    *points_of(
        *("undo.restore.before 3", "undo.begin.after 1", "undo.restore.before 1"),
        *("undo.restore.after 1", "undo.finish.before 1"),
        quick=1,
        facts=(True, True),
    ),
    *points_of(
        *("undo.finish.after 1", "undo.snapshot.before 2", "undo.snapshot.after 2"),
        *("undo.view.before 1", "undo.view.after 1"),
        quick=1,
        facts=(False, True),
    ),
]
COMPLETING = points_of(
    *("undo.restore.after 1", "undo.complete.before 1", "undo.restore.before 1"),
    *("undo.finish.before 1", "undo.finish.after 1", "undo.snapshot.before 1"),
    *("undo.snapshot.after 1", "undo.complete.after 1"),
    quick=1,
)
EXECUTORS = points_of(
    *("restore.entry.after 3", "restore.entry.before 3", "restore.before 2", "restore.after 2"),
    quick=1,
)


class Kitchen:
    """A home whose goal has changed a workspace that holds work of a person's own, too."""

    def __init__(self, folder, clew, wait="true", under=()):
        self.clew = clew
        self.under = under
        self.folder = folder / "kitchen"
        self.folder.mkdir()
        for name in NAMES:
            (self.folder / name).write_text(f"the {name}\nbefore\n")
        self._counts = (folder / f"counts {n}" for n in itertools.count())
        self._text = runbook(WORK, wait, name="tea", workspace=self.folder)

    def submit(self):
        return self.clew.submit(self._text, "tea.md")

    def edit(self):
        """Work of a person's own: on a file of theirs, on one that the goal changed too, and a new one."""
        for name in ("notes", "shared", "untracked"):
            with (self.folder / name).open("a") as file:
                file.write("mine\n")

    @property
    def undone(self):
        """Whether the goal's changes are undone, wholly; and nothing that is not the goal's alone is changed."""
        mine = {name: (self.folder / name).read_text() for name in ("notes", "shared", "untracked")}
        assert mine == {
            "notes": "the notes\nbefore\nmine\n",
            "shared": "the shared\nbefore\ngoal\nmine\n",
            "untracked": "mine\n",
        }
        there = {
            path.relative_to(self.folder).as_posix(): path.read_text().split("\n")[0]
            for path in self.folder.rglob("*")
            if path.is_file() and ".agent_context" not in path.parts and path.name not in mine
        }
        recipe = (self.folder / "recipe").stat().st_mode & 0o777
        as_before = {name: f"the {name}" for name in NAMES if name not in mine}
        if (there, recipe) == (as_before, 0o644):
            return True
        as_after = {
            "water": "hot",
            "shelf/spoon": "the spoon",
            "recipe": "the recipe",
            "pot": "new",
        }
        assert (there, recipe) == (as_after, 0o600)
        return False

    def start(self, point, hit=1, signum=signal.SIGKILL, *, ready=True, **order):
        """Start a daemon that is struck at a point, or one whose executor is."""
        counts = next(self._counts)
        points.Counts(counts)
        if self.under:
            give(counts.parent)
        named = points.Order(counts, point, (int(hit),), signum, TWO_AT_A_TIME, **order)
        env = {pointed.ORDER: pointed.encoded(named)}
        under = (*self.under, sys.executable, pointed.__file__)
        self.clew.start(ready=ready, under=under, **env)

    def ask_in_vain(self):
        """Ask for an undo, during which the daemon dies."""
        with pytest.raises((CliError, NoDaemon)):
            self.clew.ask("undo", goal="tea", perform=True)
        self.buried()

    def buried(self):
        self.clew.daemon.wait(DEADLINE_S)
        self.clew.assert_alone()

    def state(self):
        """What is on record; the daemon has ended, or is idle."""
        (told,) = aftermath.record(self.clew).values()
        return told.state

    def undo(self):
        assert self.clew.ask("undo", goal="tea", perform=True)["done"]

    def resumed(self, since):
        return [one["resumed"] for one in self.clew.seen("undo.finished", since=since)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    become_subreaper()
    folder = tmp_path_factory.mktemp("undo")
    kitchen = Kitchen(folder, clew := Clew(folder / "clew", forge=forge()))
    try:
        clew.start()
        goal = kitchen.submit()
        clew.wait("goal.completed", goal=goal)
        clew.no_worker(goal)
        kitchen.edit()
        yield kitchen
    finally:
        clew.close()
        become_subreaper(on=False)


@pytest.fixture
def kitchen(home):
    if home.clew.daemon.poll() is None:
        home.clew.stop()
    return home


def goes_on(kitchen, *, expected, resumed):
    """Hold what the next daemon finds and does against what must be; an undo of it all works as ever."""
    since = kitchen.clew.now()
    kitchen.clew.start()
    assert kitchen.resumed(since) == resumed
    assert kitchen.undone == expected
    assert kitchen.clew.verified()
    assert not kitchen.state().snapshots.undoing
    kitchen.undo()
    assert kitchen.undone != expected


@pytest.mark.parametrize(("point", "hit", "under_way", "done"), STRUCK)
def test_an_undo_is_completed_by_the_next_start_if_it_is_on_record(
    kitchen, point, hit, under_way, done
):
    """One of which nothing is recorded has not happened; one that is complete stays so, and can be reverted."""
    before = kitchen.undone
    kitchen.start(point, hit)
    kitchen.ask_in_vain()
    assert bool(kitchen.state().snapshots.undoing) == under_way
    goes_on(kitchen, expected=before != done, resumed=[True] if under_way else [])


@pytest.mark.parametrize(("point", "hit"), COMPLETING)
def test_a_daemon_that_is_killed_while_it_completes_an_undo_leaves_that_to_the_next(
    kitchen, point, hit
):
    before = kitchen.undone
    kitchen.start("undo.restore.after")
    kitchen.ask_in_vain()
    kitchen.start(point, hit, ready=False)
    kitchen.buried()
    under_way = bool(kitchen.state().snapshots.undoing)
    goes_on(kitchen, expected=not before, resumed=[True] if under_way else [])


@pytest.mark.parametrize(("point", "hit"), EXECUTORS)
def test_where_the_executor_dies_the_same_command_completes_the_undo(kitchen, point, hit):
    before = kitchen.undone
    kitchen.start(point, hit)
    said = kitchen.clew.cli("undo", "tea", "--yes", code=1)
    assert "the executor failed" in said
    assert "The workspace is half undone: `clew undo tea" in said
    assert kitchen.state().snapshots.undoing
    said = kitchen.clew.cli("undo", "tea", "--yes")
    assert "was interrupted, and is complete now" in said
    assert kitchen.undone != before
    assert kitchen.clew.verified()


def test_an_undo_is_completed_before_its_goal_goes_on(tmp_path, make_clew):
    kitchen = Kitchen(tmp_path, clew := make_clew(), wait="sleep 600")
    clew.start()
    goal = kitchen.submit()
    clew.wait("action.allowed", goal=goal, count=2)
    clew.cli("pause", "--now", goal)
    clew.no_worker(goal)
    kitchen.edit()
    assert clew.stop() == 0
    kitchen.start("restore.before", signum=signal.SIGSTOP)
    asking = subprocess.Popen(clew.command("undo", goal, "--yes"), stdout=-3, stderr=-3)
    clew.wait("undo.started", goal=goal)
    clew.cli("resume", goal)  # it waits until the undo is complete
    clew.kill()
    asking.wait(DEADLINE_S)
    assert not kitchen.undone
    since, address = clew.now(), str(tmp_path / "manager")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        clew.env = {"NOTIFY_SOCKET": address}
        kitchen.start("restore.before", signum=signal.SIGSTOP, ready=False)
        clew.wait("undo.resumed", since=since)
        assert manager.recv(4096).startswith(b"EXTEND_TIMEOUT_USEC=")
    daemon = clew.ask("ping")
    assert not daemon["ready"]
    assert daemon["status"] == f"starting: completing the undo of {goal}"
    clew.env = {}
    clew.kill()
    since = clew.now()
    clew.start(ready=False)
    clew.wait("worker.started", since=since, goal=goal)
    order = [one["event"] for one in clew.events[since:]]
    assert order.index("undo.finished") < order.index("worker.started")
    assert kitchen.undone
    clew.cli("cancel", goal)
