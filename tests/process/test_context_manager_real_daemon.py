"""An existing agent that adopts `ContextManager` and is then started by a real daemon, unchanged."""

import sys
import textwrap

GOAL = "# Do it\n\n## A task\n- [ ] First\n- [ ] Second\n- [ ] Third\n"

AGENT = """
import sys
from pathlib import Path
from clew_worker import ContextManager

ctx = ContextManager()
ctx.load_or_init("whatever I was started with")
out = Path(sys.argv[1])
if ctx.state.epoch == 1:
    Path("a.txt").write_text("one")
    ctx.record_action("write_file", {"path": "a.txt"}, "success", output="created a.txt")
    ctx.mark_subtask_complete(success=True, reason="a.txt has one line")
    ctx.advance_to_next_subtask()
    for _ in range(3):
        ctx.record_action("run_cmd", {"cmd": "make"}, "failure", output="no rule to make target")
    import os
    os._exit(9)
text = ctx.get_compact_context()
out.write_text(text)
again = ctx.record_action("run_cmd", {"cmd": "make"}, "failure", output="no rule to make target")
out.with_suffix(".answer").write_text(f"{again} {ctx.answer.reason}")
ctx.mark_subtask_complete(success=True)
ctx.advance_to_next_subtask()
ctx.mark_subtask_complete(success=True)
assert ctx.advance_to_next_subtask() is False
"""


def test_a_goal_whose_check_fails_is_not_finished_and_says_which(clew, tmp_path):
    script = tmp_path / "agent.py"
    script.write_text(
        "from clew_worker import ContextManager\n"
        "from pathlib import Path\n"
        "ctx = ContextManager()\n"
        "ctx.load_or_init('x')\n"
        "ctx.mark_subtask_complete(True)\n"
        "assert ctx.finish('done') is False\n"
        "assert list(ctx.failing_checks) == ['there'], ctx.failing_checks\n"
        "Path('there').touch()\n"
        "assert ctx.finish('done') is True\n"
    )
    clew.configure(
        {
            "agents.own.kind": "command",
            "agents.own.command": [sys.executable, "-I", "-B", str(script)],
            "agents.own.own_tools": True,
        }
    )
    front = "---\nagent: own\nchecks:\n  there: test -f there\n---\n"
    clew.start().completed(f"{front}# Do it\n- [ ] Make it there\n")
    clew.stop()


def test_after_a_crash_the_agent_sees_what_is_done_what_it_said_and_what_is_blocked(clew, tmp_path):
    script, shown = tmp_path / "agent.py", tmp_path / "shown" / "text"
    shown.parent.mkdir()
    script.write_text(textwrap.dedent(AGENT))
    clew.configure(
        {
            "agents.own.kind": "command",
            "agents.own.command": [sys.executable, "-I", "-B", str(script), str(shown)],
            "agents.own.own_tools": True,
            "sandbox.write": [str(shown.parent)],
        }
    )
    clew.start().completed(f"---\nagent: own\n---\n{GOAL}")
    clew.stop()
    text = shown.read_text()
    assert "DONE: First: a.txt has one line" in text
    assert "ACTIVE SUBTASK: Second\nStatus: in_progress" in text
    assert "→ failure: no rule to make target" in text
    assert 'BLOCKED: run_cmd::{"cmd":"make"}' in text
    assert "NEXT: Third" in text
    assert shown.with_suffix(".answer").read_text() == "False blocked_action"


PLANS = """
from clew_worker import ContextManager, Subtask, Task
ctx = ContextManager()
ctx.load_or_init("x")
assert ctx.state.goal.tasks == []
task = Task("All", [Subtask("First"), Subtask("Then")])
ctx.state.goal.tasks.append(task)
assert ctx.record_action("look", {"n": 1}, "success")
assert [ctx.mark_subtask_complete(False, reason="no") for _ in range(2)][1] == "task"
ctx.state.goal.tasks[0].subtasks[:] = [Subtask("Another way")]
assert ctx.record_action("look", {"n": 2}, "success")
assert ctx.mark_subtask_complete(True) is None
assert ctx.finish("done") is True
"""


def test_tasks_that_an_agent_brings_are_its_plan_and_others_in_their_place_a_replan(clew, tmp_path):
    script = tmp_path / "agent.py"
    script.write_text(PLANS)
    command = [sys.executable, "-I", "-B", str(script)]
    own = {"kind": "command", "command": command, "own_tools": True}
    clew.configure({f"agents.own.{key}": value for key, value in own.items()})
    goal = clew.start().completed("---\nagent: own\n---\nDo it\n")
    (task,) = clew.ask("status", goal=goal)["goal"]["goal"]["tasks"]
    assert [one["description"] for one in task["subtasks"]] == ["Another way"]
