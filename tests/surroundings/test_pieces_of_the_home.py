"""Pieces of a home are deleted, moved, replaced, copied, put back: while the daemon runs, and while it does not."""

import shutil

import pytest
from harness import children
from main_job import DONE, Placed, Ways

LONG = pytest.mark.long
UNUSABLE = 78


@pytest.fixture
def clew(place):
    """A home with its daemon not yet started."""
    return place(Ways())


def at_the_gate(clew: Placed) -> str:
    """Start a daemon with the goal of the main job, and wait until it stands before the first gate; its id."""
    clew.start()
    goal = clew.hand_in()
    clew.works_at(goal, "first", epoch=1)
    return goal


def goes_on(clew: Placed, goal: str) -> None:
    """The goal is completed from where it stands, each step done once."""
    clew.open_gate("first")
    clew.open_gate("second")
    clew.wait("goal.completed", goal=goal)
    assert clew.trace() == DONE


def ends_by_itself(clew: Placed, code: int) -> str:
    """Wait for the daemon's own end; what it printed."""
    assert clew.daemon is not None
    assert clew.daemon.wait(30) == code, clew._tail()
    clew.assert_alone()
    return clew.out.read_text(errors="replace")


# -- the state folder


@LONG
def test_a_state_folder_whose_goals_are_gone_goes_on_by_its_ledger(clew):
    goal = at_the_gate(clew)
    clew.kill()
    shutil.rmtree(clew.home / "state" / "goals")
    clew.start()
    goes_on(clew, goal)
    assert clew.stop() == 0
    assert clew.verified()


# -- a home at another place


def elsewhere(base, clew, name):
    """The same clew, on a home that lies elsewhere; the workspace stays."""
    other = object.__new__(Placed)
    other.__dict__.update(clew.__dict__)
    other.home = base / name
    other.outbox, other.options = other.home / "outbox", ["--home", str(other.home)]
    other.log, other.out = base / f"{name}.jsonl", base / f"{name}.out"
    other.config = {table: dict(keys) for table, keys in clew.config.items()}
    other.daemon, other.events, other._read = None, [], 0
    other._before = set(children())  # the other daemon among them
    return other


@pytest.fixture
def copy_of(base):
    """A function that gives a clew on another home."""
    made = []

    def give(clew, name="copy"):
        made.append(elsewhere(base, clew, name))
        return made[-1]

    yield give
    for one in made:
        one.close()


@LONG
@pytest.mark.parametrize("when", ["while nothing ran", "under its daemon"])
def test_a_renamed_home_goes_on_at_its_new_place_with_each_step_done_once(clew, copy_of, when):
    goal = at_the_gate(clew)
    there = copy_of(clew)
    if when == "while nothing ran":
        clew.kill()
        clew.home.rename(there.home)
    else:
        clew.home.rename(there.home)
        ends_by_itself(clew, UNUSABLE)
    there.configure({"log.file": str(there.log)})
    there.start()
    if there.shown(goal)["status"] == "blocked":
        there.clew("resume", goal)
    goes_on(there, goal)
    assert there.stop() == 0
    assert there.verified()
