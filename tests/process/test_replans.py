"""A replan under the real daemon: pending work is named, and not lost; the progress marker never goes down."""

from llm_server import ScriptedLlm, calls

GIVES_UP = calls(("complete_subtask", {"success": False, "failure": "no way"}))
DONE = calls(("complete_subtask", {"success": True, "summary": "ok"}))


def run(number):
    return calls(("run_cmd", {"cmd": f"echo {number} >> log"}))


def plan(*subtasks, **fields):
    tasks = [{"description": "all", "subtasks": list(subtasks)}]
    return calls(("plan", {"tasks": tasks, **fields}))


def configured(clew, llm):
    agent = {"kind": "llm", "base_url": llm.base_url, "model": "m", "mode": "tools"}
    keys = {f"agents.scripted.{key}": value for key, value in agent.items()}
    limits = {"attempts.limit": 1, "loops.failure_limit": 1, "context.progress_from": 1}
    clew.configure(keys | limits | {"agents.default": "scripted"})


GOAL = "---\nagent: scripted\n---\n# Do it\n" + "Take care of each of the following.\n" * 9


def test_work_that_was_not_tried_is_offered_to_the_new_plan_and_done_after_it(clew):
    script = [plan("stuck", "tests", "docs", "tea"), run(1), run(2), GIVES_UP]
    script += [plan("another way", "Tea", covers=[2]), run(3), DONE, run(4), DONE, run(5), DONE]
    with ScriptedLlm(*script) as llm:
        configured(clew, llm)
        goal = clew.start().submit(GOAL)
        clew.wait("goal.completed", goal=goal)
    assert (
        "1. tests (not tried yet)\n2. docs (not tried yet)\n3. tea (not tried yet)" in llm.prompt(4)
    )
    tree = clew.state(goal)["goal"]["tasks"]
    assert [[s["description"] for s in task["subtasks"]] for task in tree] == [
        ["another way", "tea", "tests"]
    ]
    report = clew.until(lambda: "completed" in clew.report(goal) and clew.report(goal))
    assert "stuck (blocked: no way)" in report
    assert "docs (not tried: another plan covers it)" in report
    last = llm.prompt(len(llm.requests) - 1)
    assert "Tried and given up, not to be tried again:\n- stuck" in last
    assert "- docs" not in last
