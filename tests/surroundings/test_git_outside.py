"""A workspace whose git folder lies outside of it: a linked worktree."""

import json
import shutil
import subprocess

import pytest
from main_job import Ways

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")

COMMIT = "git add new && git -c user.name=a -c user.email=a@b commit -qm new"


def git(folder, *args):
    subprocess.run(["git", "-C", folder, *args], check=True, capture_output=True)


@pytest.fixture
def main(base):
    """A repository with one commit, and a linked worktree of it in the place of the workspace."""
    main = base / "main"
    git(base, "init", "-q", main)
    git(
        main,
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "0",
    )
    return main


def test_it_is_said_once_and_with_the_line_of_the_config_that_lets_git_work(base, main, place):
    clew = place(Ways())
    clew.place.rmdir()
    git(main, "worktree", "add", "-q", clew.place)
    clew.start()
    goal = clew.hand_in(["echo new > new", COMMIT])
    clew.wait("goal.blocked", goal=goal)
    said = clew.seen("workspace.git_outside", goal=goal)
    assert [one["folder"] for one in said] == [str(main / ".git")]
    assert f'[sandbox] write = ["{main}/.git"]' in said[0]["hint"]
    assert clew.stop() == 0

    clew.configure({"sandbox.write": [str(main / ".git")]})
    clew.start()
    clew.clew("retry", goal) if clew.shown(goal)["status"] == "failed" else clew.clew(
        "resume", goal
    )
    clew.wait("goal.completed", goal=goal)
    assert len(clew.seen("workspace.git_outside", goal=goal)) == 1
    results = [one["result"] for one in json.loads(clew.clew("history", goal, "--json"))["actions"]]
    assert results[-1] == "success"
    log = subprocess.run(
        ["git", "-C", clew.place, "log", "--format=%s"], capture_output=True, text=True, check=True
    )
    assert log.stdout.split() == ["new", "0"]
    assert clew.stop() == 0
