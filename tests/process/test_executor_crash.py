"""An executor that dies is nobody's failure: neither a failed attempt of the step nor a failing check."""

import os
import signal
import sys

ONE = "# Do it\n\n## S\n- [ ] one\n  ```sh\n  {cmd}\n  ```\n"
UNTIL = "test -e go || echo x >> begun; until test -e go; do sleep 0.02; done"


UNEXPECTED = """
import sys
from types import SimpleNamespace
FAULT = '''
import sys
from clew_worker.executor.tools import registry
def carry_out(name, args, context):
    raise OverflowError("int too large to convert")
registry.carry_out = carry_out
from clew_worker.cell import nursery
sys.exit(nursery.main(["nursery", *sys.argv[1:]]))
'''
from clew_daemon.processes import nursery as warm
start = warm.subprocess.Popen
def popen(command, **named):
    rest = command[command.index("clew_worker.cell.nursery") + 1 :]
    return start([sys.executable, "-c", FAULT, *rest], **named)
warm.subprocess = SimpleNamespace(**vars(warm.subprocess) | {"Popen": popen})
from clew_daemon.cli import main
sys.argv = ["clew", *sys.argv[4:]]
main()
"""
"""A daemon in whose executors every tool meets an error that nobody has thought of."""


def kill_executor(clew, goal):
    clew.until(lambda: clew.lines(goal, "begun") == ["x"])
    os.kill(clew.executor_pid(goal), signal.SIGKILL)
    clew.until(lambda: clew.lines(goal, "begun") == ["x", "x"])
    (clew.workspace(goal) / "go").touch()


def test_a_check_whose_executor_died_is_run_again_and_does_not_fail_the_goal(clew):
    front = f"---\nchecks: {{slow: '{UNTIL}'}}\n---\n"
    goal = clew.start().submit(front + ONE.format(cmd="true"))
    kill_executor(clew, goal)
    clew.wait("goal.completed", goal=goal)
    assert clew.seen("executor.died", goal=goal)
    assert not clew.seen("check.failed", goal=goal)


def test_an_error_of_the_executor_that_nobody_expected_is_named_in_the_log_and_the_question(clew):
    clew.start(under=(sys.executable, "-c", UNEXPECTED))
    goal = clew.submit(ONE.format(cmd="true"))
    clew.wait("goal.blocked", goal=goal)
    error = "OverflowError: int too large to convert"
    assert error in clew.seen("executor.died", goal=goal)[0]["reason"]
    cut_off = clew.seen("action.interrupted", goal=goal)[0]
    assert (cut_off["reason"], error in cut_off["detail"]) == ("executor_died", True)
    said = clew.cli("status", goal)
    assert error in said, said
