"""Agents of other makers: their own tools, thoughts, plans, people's words, and how a goal ends."""

import pytest

from clew_daemon.reading.client import CliError

GOAL = "# Do it\n\n## A task\n- [ ] First\n- [ ] Second\n"


def by(agent, text=GOAL, front=""):
    return f"---\nagent: {agent}\n{front}---\n{text}"


def test_an_agent_that_changes_files_by_itself_and_says_nothing_may_finish_again_and_again(clew):
    """It was told that nothing had changed between its refused finishes, and its subtask failed."""
    clew.agent(
        "own",
        """
        hello()
        for text in "1234567":
            Path("a.txt").write_text(text)
            answer = call("finish", success=True)
            say([answer["accepted"], answer.get("escalated_to")])
        """,
        own_tools=True,
    )
    goal = clew.start().submit(by("own", front="checks:\n  seven: grep -q 7 a.txt\n"))
    clew.wait("goal.completed", goal=goal)
    assert clew.said(goal, count=7) == [[False, None]] * 6 + [[True, None]]


def test_the_world_is_looked_at_anew_before_a_refusal(clew):
    clew.agent(
        "tester",
        """
        hello()
        run("cat input")
        run("cat input")
        say("twice")
        notice("feedback")
        say(run("cat input")["verdict"])
        call("finish", success=False)
        """,
    )
    clew.configure({"loops.repeat_limit": 3})
    goal = clew.start().submit(by("tester"))
    clew.said(goal)
    (clew.workspace(goal) / "input").write_text("from a person's editor")
    clew.ask("feedback", goal=goal, text="there is an input now")
    clew.wait("goal.failed", goal=goal)
    assert clew.said(goal, count=2)[1] == "allowed"


ESCALATING = """
def plan(level, name):
    tasks = [{"description": name, "subtasks": [{"description": name + " subtask"}]}]
    return call("plan", tasks=tasks, replan=level)

def fail_twice():
    for _ in range(2):
        level = call("complete_subtask", success=False, failure="it cannot be done")["escalated_to"]
    return level
"""


def test_an_agent_that_exits_instead_of_replanning_takes_the_goal_to_a_person(clew):
    clew.agent("leaver", ESCALATING + "\nhello()\nfail_twice()\n")
    goal = clew.start().submit(by("leaver"))
    assert "it cannot be done" in clew.wait("goal.blocked", goal=goal)["reason"]
    assert len(clew.seen("worker.started", goal=goal)) == 1


def test_a_paused_goal_stays_so_across_a_restart_until_it_is_resumed(clew):
    clew.agent(
        "waiter", "hello()\nif epoch == 1: notice('stop')\nelse:\n  done(); call('advance'); done()"
    )
    goal = clew.start().submit(by("waiter"))
    clew.wait("worker.ready", goal=goal)
    clew.ask("pause", goal=goal)
    assert clew.goal(goal)["pid"] is None
    clew.kill()
    clew.start()
    assert clew.goal(goal)["status"] == "waiting"
    with pytest.raises(CliError, match="paused"):
        clew.ask("pause", goal=goal)
    clew.ask("resume", goal=goal)
    clew.wait("goal.completed", goal=goal)
