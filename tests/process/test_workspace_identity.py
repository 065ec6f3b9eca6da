"""A goal works in one folder: what is put in its place is left alone until a person accepts it."""

import os
import subprocess

import pytest
from harness import remove_at_once
from of_proc import alive

ACTING = """
hello()
say("ready")
while True:
    notice("feedback")
    outcome = run("rm -rf ./* && echo acted > trace").get("outcome", {})
    say([outcome.get("result"), outcome.get("output", "")[:200]])
"""
FRONT = "---\nagent: worker\nworkspace: {}\n---\n# Work\n"
STEP = "# Work\n\n## S\n- [ ] one\n  ```sh\n  {}\n  ```\n- [ ] two\n  ```sh\n  {}\n  ```\n"
WAITS = "echo 1 >> begun; until test -e go; do sleep 0.02; done"
REPLACED = "the workspace was replaced"
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")


@pytest.fixture
def place(clew):
    return clew.folder / "ws"


def foreign(place):
    """Put another folder, with a file of somebody's, in the place of the workspace; the original goes aside."""
    place.rename(place.with_name("original"))
    place.mkdir()
    (place / "precious").write_text("mine")


def untouched(place):
    return [entry.name for entry in place.iterdir()] == ["precious"]


def acting(clew, place):
    """Submit a goal whose agent empties its workspace at each feedback; returns it when the agent is ready."""
    clew.agent("worker", ACTING)
    goal = clew.start().submit(FRONT.format(place))
    clew.said(goal)
    return goal


def blocked(clew, goal, count=1):
    return clew.wait("goal.blocked", goal=goal, count=count)


def ready_again(clew, goal, since):
    clew.wait("worker.ready", goal=goal, since=since)


def test_an_agent_with_tools_of_its_own_is_ended_when_its_workspace_is_replaced(clew, place):
    clew.agent("worker", 'hello()\nsay("ready")\nnotice("never")', own_tools=True)
    goal = clew.start().submit(FRONT.format(place))
    clew.said(goal)
    pid = clew.agent_pid(goal)
    foreign(place)
    assert blocked(clew, goal)["reason"] == REPLACED
    clew.until(lambda: not alive(pid), "the worker's end")
    assert untouched(place)


def test_a_person_who_resumes_accepts_the_folder_that_they_were_told_of(clew, place):
    goal = acting(clew, place)
    foreign(place)
    blocked(clew, goal)
    since = clew.now()
    clew.ask("resume", goal=goal)
    ready_again(clew, goal, since)
    assert clew.seen("workspace.accepted", goal=goal)[0]["inode"] == place.stat().st_ino
    clew.ask("feedback", goal=goal, text="go on")
    assert clew.said(goal, count=3)[2] == ["success", ""]
    assert (place / "trace").read_text() == "acted\n"


@pytest.mark.parametrize(("method", "more"), [("feedback", {"text": "go on"}), ("retry", {})])
def test_feedback_and_retry_accept_no_other_folder(clew, place, method, more):
    goal = acting(clew, place)
    foreign(place)
    blocked(clew, goal)
    clew.ask(method, goal=goal, **more)
    assert blocked(clew, goal, count=2)["reason"] == REPLACED
    assert untouched(place)


def test_a_parent_that_is_renamed_during_a_step_leads_no_later_step_elsewhere(clew):
    outer = clew.folder / "outer"
    place = outer / "ws"
    front = f"---\nworkspace: {place}\n---\n"
    goal = clew.start().submit(front + STEP.format(WAITS, "rm -rf ./*"))
    clew.until((place / "begun").exists)
    outer.rename(clew.folder / "moved")
    place.mkdir(parents=True)
    (place / "precious").write_text("mine")
    (clew.folder / "moved" / "ws" / "go").touch()
    assert blocked(clew, goal)["reason"] == REPLACED
    assert untouched(place)
    assert (clew.folder / "moved" / "ws" / "begun").exists()


def mount(*words):
    done = subprocess.run(["mount", *map(str, words)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"may not mount here: {done.stderr.decode().strip()}")


@root_only
def test_what_is_mounted_over_the_workspace_is_not_acted_in(clew, place):
    goal = acting(clew, place)
    mount("-t", "tmpfs", "none", place)
    try:
        (place / "precious").write_text("mine")
        clew.ask("feedback", goal=goal, text="go on")
        assert blocked(clew, goal)["reason"] == REPLACED
        assert untouched(place)
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
    since = clew.now()
    clew.ask("resume", goal=goal)
    ready_again(clew, goal, since)


def test_two_daemons_take_turns_in_one_workspace(make_clew, tmp_path):
    place = tmp_path / "shared"
    one, other = make_clew(name="one"), make_clew(name="other")
    front = f"---\nworkspace: {place}\n---\n"
    goal = one.start().submit(front + STEP.format(WAITS, "echo one >> order"))
    one.until((place / "begun").exists)
    later = other.start().submit(front + STEP.format("true", "echo other >> order"))
    waiting = other.wait("goal.waiting", goal=later)
    assert f"process {one.daemon.pid}" in waiting["reason"]
    assert str(place) in waiting["reason"]
    assert not other.seen("worker.started", goal=later)
    (place / "go").touch()
    one.wait("goal.completed", goal=goal)
    other.wait("goal.completed", goal=later)
    assert (place / "order").read_text() == "one\nother\n"


# -- a workspace that is removed under a running goal: the action says so, and a person is aske


def test_an_action_in_a_workspace_that_was_removed_is_an_error_and_the_goal_waits_for_a_person(
    clew,
):
    clew.agent(
        "worker",
        """
        hello()
        act("write_file", path="here", content="x")
        say("made")
        notice("feedback")
        outcome = act("run_cmd", cmd="pwd")["outcome"]
        say([outcome["result"], "was removed" in outcome["output"]])
        notice("stop")
        """,
    )
    goal = clew.start().submit("---\nagent: worker\nchecks: {any: 'true'}\n---\n# Work\n")
    clew.said(goal)
    remove_at_once(clew.workspace(goal))
    clew.ask("feedback", goal=goal, text="go on")
    assert clew.wait("goal.blocked", goal=goal)["reason"] == "the workspace is gone"
    assert clew.said(goal, count=2)[1:] == [["error", True]]
