"""Another folder stands where the workspace was: nothing acts there until a person accepts it."""

import shutil

import pytest
from environments import mounted
from main_job import Placed, Ways

LONG = pytest.mark.long


@pytest.fixture
def clew(place):
    """A home with its daemon not yet started."""
    return place(Ways())


def at_the_gate(clew: Placed) -> str:
    clew.start()
    goal = clew.hand_in()
    clew.works_at(goal, "first", epoch=1)
    return goal


def by_another(place):
    """A folder of somebody else's; where the first one is now."""
    place.rename(place.with_name("before"))
    place.mkdir()
    (place / "mine").write_text("mine")
    return place.with_name("before")


def by_an_empty_one(place):
    shutil.rmtree(place)
    place.mkdir()


def by_a_copy(place):
    place.rename(place.with_name("before"))
    shutil.copytree(place.with_name("before"), place)
    return place.with_name("before")


def contents(place):
    """Every file below a folder, clew's own published ones as well."""
    return {str(path): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def is_left_alone(clew: Placed, goal: str, found: dict) -> None:
    """The goal waits for a person, and nothing has acted in the folder that is there now."""
    blocked = clew.wait("goal.blocked", goal=goal)
    assert str(clew.place) in blocked["question"]
    assert f"clew continue {goal}" in blocked["question"]
    assert contents(clew.place) == found


def is_accepted(clew: Placed, goal: str) -> None:
    """A person resumes the goal, which goes on in the folder that is there."""
    clew.open_gate("first")
    clew.open_gate("second")
    clew.clew("resume", goal)
    clew.wait("goal.completed", goal=goal)
    assert clew.trace()[-1] == "4"
    assert clew.stop() == 0
    assert clew.verified()


@pytest.mark.parametrize(
    "replaced",
    [by_another, *(pytest.param(one, marks=LONG) for one in (by_an_empty_one, by_a_copy))],
    ids=lambda replaced: replaced.__name__,
)
def test_a_workspace_replaced_during_a_step_is_not_acted_in_until_a_person_accepts_it(
    clew, replaced
):
    goal = at_the_gate(clew)
    before = replaced(clew.place)
    found = contents(clew.place)
    if before:
        (before / "first").touch()
    else:
        clew.kill_agent(goal)
    is_left_alone(clew, goal, found)
    is_accepted(clew, goal)


@LONG
@pytest.mark.parametrize(
    "replaced", [by_another, by_an_empty_one, by_a_copy], ids=lambda replaced: replaced.__name__
)
def test_a_workspace_replaced_while_no_daemon_ran_is_not_acted_in(clew, replaced):
    goal = at_the_gate(clew)
    clew.kill()
    replaced(clew.place)
    found = contents(clew.place)
    clew.start()
    is_left_alone(clew, goal, found)
    is_accepted(clew, goal)


@LONG
def test_a_workspace_that_is_put_back_goes_on_where_it_was(clew):
    goal = at_the_gate(clew)
    clew.kill()
    before = by_another(clew.place)
    clew.start()
    clew.wait("goal.blocked", goal=goal)
    shutil.rmtree(clew.place)
    before.rename(clew.place)
    clew.open_gate("first")
    clew.open_gate("second")
    clew.clew("resume", goal)
    clew.wait("goal.completed", goal=goal)
    assert clew.trace() == ["0", "2", "4"]
    assert clew.stop() == 0


@LONG
def test_a_workspace_whose_mount_is_gone_is_not_acted_in(clew):
    with mounted("-t", "tmpfs", "none", str(clew.place)):
        goal = at_the_gate(clew)
        clew.kill()
    clew.start()
    is_left_alone(clew, goal, {})
    assert not list(clew.place.iterdir())
    assert clew.stop() == 0


@LONG
def test_a_workspace_mounted_over_is_not_acted_in(clew):
    goal = at_the_gate(clew)
    clew.kill()
    with mounted("-t", "tmpfs", "none", str(clew.place)):
        clew.start()
        clew.wait("goal.blocked", goal=goal)
        assert not list(clew.place.iterdir())
        assert clew.stop() == 0
