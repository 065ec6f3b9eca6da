"""An executor that dies is nobody's failure: neither a failed attempt of the step nor a failing check."""

import os
import signal

ONE = "# Do it\n\n## S\n- [ ] one\n  ```sh\n  {cmd}\n  ```\n"
UNTIL = "test -e go || echo x >> begun; until test -e go; do sleep 0.02; done"


def kill_executor(clew, goal):
    clew.until(lambda: clew.lines(goal, "begun") == ["x"])
    os.kill(clew.executor_pid(goal), signal.SIGKILL)
    clew.until(lambda: clew.lines(goal, "begun") == ["x", "x"])
    (clew.workspace(goal) / "go").touch()


def test_a_runbook_proposes_a_step_again_whose_executor_died_and_counts_no_failure(clew):
    goal = clew.start().submit(ONE.format(cmd=UNTIL))
    kill_executor(clew, goal)
    clew.wait("goal.completed", goal=goal)
    assert clew.seen("action.interrupted", goal=goal)[0]["reason"] == "executor_died"
    assert not clew.seen("subtask.failed", goal=goal)
    assert [line["result"] for line in clew.history(goal)] == ["interrupted", "success"]


def test_a_check_whose_executor_died_is_run_again_and_does_not_fail_the_goal(clew):
    front = f"---\nchecks: {{slow: '{UNTIL}'}}\n---\n"
    goal = clew.start().submit(front + ONE.format(cmd="true"))
    kill_executor(clew, goal)
    clew.wait("goal.completed", goal=goal)
    assert clew.seen("executor.died", goal=goal)
    assert not clew.seen("check.failed", goal=goal)
