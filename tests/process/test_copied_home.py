"""A home that was copied, moved or restored elsewhere: it does not do the original's work a second time."""

import shutil

import pytest
from harness import Clew, forge, remove_at_once
from of_proc import alive, children

STEPS = 400
WORK = "\n".join(
    ["# Work on", "", "## Do"]
    + [f"- [ ] Step {i}\n  ```sh\n  echo {i} >> trace; sleep 0.05\n  ```" for i in range(STEPS)]
)
SHORT = "# Say a word\n\n## Only this\n- [ ] Say it\n  ```sh\n  echo word >> said\n  ```\n"
LATER = "---\nnot_before: 2999-01-01T00:00:00Z\n---\n" + SHORT


@pytest.fixture
def second(tmp_path):
    """A second home, whose folder is filled by the test."""
    folder = tmp_path / "second"
    folder.mkdir()
    clew = Clew(folder, forge=forge())
    remove_at_once(clew.home)
    yield clew
    clew.close()


def copied(clew, second) -> None:
    """What `cp -a` makes of a home; the sockets of a living daemon are no files to copy."""
    shutil.copytree(
        clew.home, second.home, symlinks=True, ignore=shutil.ignore_patterns("*.sock", "*.part")
    )
    beside(second)


def beside(second) -> None:
    """What runs now is not the second home's."""
    second._before = set(children())


def working(clew) -> str:
    goal = clew.start().submit(WORK, "work.md")
    clew.wait("action.finished", goal=goal, count=3)
    return goal


def test_a_copy_beside_the_living_original_waits_for_a_person_and_ends_nothing(clew, second):
    goal = working(clew)
    later = clew.submit(LATER, "later.md")
    agent = clew.agent_pid(goal)
    copied(clew, second)
    second.start()
    views = second.goals()
    assert {views[goal]["status"], views[later]["status"]} == {"blocked"}
    assert f"copied or moved from {clew.home / 'state'}" in views[goal]["reason"]
    report = second.report(goal)
    assert f"clew continue {goal}" in report
    assert f"clew cancel {goal}" in report

    clew.wait("action.finished", since=clew.now(), goal=goal, count=5)
    assert alive(agent)
    assert len(clew.seen("worker.started", goal=goal)) == 1
    assert not second.seen("worker.started")
    assert not second.seen("worker.leftover")
    lines = clew.lines(goal, "trace")
    assert len(lines) == len(set(lines))
    assert second.stop() == 0
    assert second.verified()

    second.start()  # it is known by now, and the goals are still a person's
    assert second.goal(goal)["status"] == "blocked"
    second.clew("cancel", goal)
    assert second.stop() == 0
    assert clew.stop() == 0


def test_a_home_that_is_renamed_is_the_same_home(clew, second):
    later = clew.start().submit(LATER, "later.md")
    assert clew.stop() == 0
    clew.home.rename(second.home)
    second.start()
    assert second.goal(later)["status"] == "queued"
    assert not second.seen("home.other")
