"""Agents of other makers: their own tools, thoughts, plans, people's words, and how a goal ends."""

import json

import yaml
from llm_server import ScriptedLlm, calls

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
    goal = clew.start().completed(by("own", front="checks:\n  seven: grep -q 7 a.txt\n"))
    assert clew.said(goal, count=7) == [[False, None]] * 6 + [[True, None]]


# -- a goal that ends without a check says so; its agent may suggest checks, and is asked about


WRITE = calls(("write_file", {"path": "hello.txt", "content": "hello"}))
DONE = calls(("complete_subtask", {"success": True, "summary": "done"}))
LONG = "# Say hello\n" + "Take care of every one of the following.\n" * 10


def goal_file(text="# Say hello\n", **front):
    return f"---\n{yaml.safe_dump({'agent': 'thinker', **front})}---\n{text}"


def plan(*checks, subtasks=("Write it",)):
    named = [{"name": name, "cmd": cmd} for name, cmd in checks]
    return calls(
        ("plan", {"tasks": [{"description": "Files", "subtasks": list(subtasks)}], "checks": named})
    )


def detail(clew, goal):
    return json.loads(clew.clew("status", goal, "--json"))["goal"]


def test_suggested_checks_are_run_at_the_end_and_decide_nothing(clew):
    script = plan(("there", "test -f hello.txt"), ("fails", "echo no bye; exit 3"))
    with ScriptedLlm(script, WRITE, DONE) as llm:
        clew.model(llm, "thinker")
        goal = clew.start().submit(goal_file(LONG))
        line = clew.wait("goal.completed", goal=goal)
        offered = next(t for t in llm.requests[0]["tools"] if t["function"]["name"] == "plan")
    assert "checks" in offered["function"]["parameters"]["properties"]
    assert line["verified"] is False
    assert [(e["name"], e["cmd"]) for e in clew.seen("check.proposed", goal=goal)] == [
        ("there", "test -f hello.txt"),
        ("fails", "echo no bye; exit 3"),
    ]
    assert clew.seen("check.passed", goal=goal, name="there", suggested=True)
    assert clew.seen("check.failed", goal=goal, name="fails", suggested=True)
    assert detail(clew, goal)["suggested_checks"] == [
        {"name": "there", "cmd": "test -f hello.txt", "passed": True},
        {"name": "fails", "cmd": "echo no bye; exit 3", "passed": False},
    ]
    report = clew.report(goal)
    block = report.partition("    ---\n")[2].partition("    ---\n")[0]
    assert yaml.safe_load(block)["checks"] == {
        "there": "test -f hello.txt",
        "fails": "echo no bye; exit 3",
    }
    assert clew.verified()


def test_suggested_checks_with_keys_are_left_out_and_never_recorded(clew):
    key = "sk-abcdefghijklmnop1234567890"
    with ScriptedLlm(plan(("k", f"test {key} = x"), ("fine", "true")), WRITE, DONE) as llm:
        clew.model(llm, "thinker")
        goal = clew.start().completed(goal_file(LONG))
    assert [one["name"] for one in clew.seen("check.proposed", goal=goal)] == ["fine"]
    assert key not in clew.log.read_text()
    assert key not in clew.report(goal)


def test_restarts_count_deaths_of_the_worker_and_nothing_else(clew):
    clew.agent(
        "waiting",
        'import time\nhello()\nsay("here")\nwhile not os.path.exists("go"): time.sleep(0.01)\ndone()',
    )
    goal = clew.start().submit("---\nagent: waiting\n---\n# Wait\n")
    clew.said(goal)

    def begun(count):
        clew.said(goal, count=count)
        return clew.goal(goal)["restarts"]

    clew.clew("pause", goal)
    clew.clew("resume", goal)
    assert begun(2) == 0
    clew.kill_agent(goal)
    assert begun(3) == 1
    clew.kill()
    clew.start()
    assert begun(4) == 1
    clew.stop()
    clew.start()
    assert begun(5) == 1
    clew.clew("cancel", goal)
    clew.clew("retry", goal)
    assert begun(6) == 1
    (clew.workspace(goal) / "go").touch()
    clew.wait("goal.completed", goal=goal)
    assert (clew.goal(goal)["epoch"], clew.goal(goal)["restarts"]) == (6, 1)
    assert clew.state(goal)["restarts"] == 1
    assert "- restarts: 1\n" in clew.report(goal)
