"""The workers of the docs, as they stand there, with the real daemon and its sandboxes."""

import re
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
AGENTS = (REPO / "docs" / "agents.md").read_text()
README = (REPO / "README.md").read_text()
GOAL = re.search(r"```markdown\n(---\nagent: plain\n.*?)```", AGENTS, re.DOTALL)[1]
FIRST_GOAL = re.search(r"````markdown\n(.*?)````", README, re.DOTALL)[1]


def example(text, info):
    return re.search(rf"```{re.escape(info)}\n(.*?)```", text, re.DOTALL)[1]


@pytest.fixture
def worker(clew):
    """A function that makes an agent of a script, as the docs say, and starts the daemon."""

    def make(name, script, **keys):
        folder = clew.folder / "agents"
        folder.mkdir()
        (folder / f"{name}.py").write_text(script)
        table = {"command": [sys.executable, str(folder / f"{name}.py")], **keys}
        clew.configure({f"agents.{name}.{key}": value for key, value in table.items()})
        return clew.start()

    return make


def test_the_worker_in_plain_sockets_does_its_goal(worker):
    clew = worker("plain", example(AGENTS, "python agent=plain"))
    goal = clew.completed(GOAL)
    assert clew.lines(goal, "a.txt") == ["hello"]


def test_the_worker_in_plain_sockets_leaves_what_it_cannot_do_to_a_person(worker):
    clew = worker("plain", example(AGENTS, "python agent=plain"))
    goal = clew.submit("---\nagent: plain\n---\n# Fail\n- false\n")
    clew.wait("goal.blocked", goal=goal)
    assert clew.goal(goal)["restarts"] == 0


def test_the_worker_with_its_own_tools_does_its_goal(worker):
    clew = worker("own", example(AGENTS, "python agent=own"), own_tools=True)
    goal = clew.completed("---\nagent: own\n---\nMake notes of today.\n")
    assert clew.lines(goal, "notes/today.txt")


def test_the_worker_with_the_library_does_its_goal(worker):
    clew = worker("mine", example(AGENTS, "python agent=mine"))
    goal = clew.completed("---\nagent: mine\n---\nLook where we are.\n")
    assert clew.lines(goal, "where.txt")


def test_the_first_goal_of_the_readme_is_completed(clew):
    goal = clew.start().completed(FIRST_GOAL.replace("workspace: ~/greet\n", ""))
    assert clew.seen("check.passed", goal=goal, name="greets")
    [named] = set(re.findall(r"^clew (?:history|diff|undo) (\S+)", README, re.MULTILINE))
    assert goal.startswith(named)
