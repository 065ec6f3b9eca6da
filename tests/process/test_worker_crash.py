"""Workers that crash, hang or misbehave: nothing is lost, nothing runs twice, nobody is left."""

import contextlib
import json
import os
import signal
import uuid
from pathlib import Path

import pytest
from harness import runbook
from of_proc import children, nursery, running

STEPS = runbook(
    "echo 1 >> trace",
    "echo begun >> begun; until test -e go; do sleep 0.02; done; echo 2 >> trace",
    "echo 3 >> trace",
)


def foreign(name):
    return f"---\nagent: {name}\n---\n# Do it\n\n## A task\n- [ ] First\n- [ ] Second\n"


def test_the_executor_dying_alone_interrupts_the_action_and_the_agent_goes_on(clew):
    marker = f"9{uuid.uuid4().int % 10**9}"
    clew.agent(
        "worker",
        f"""
        hello()
        say(run("echo x >> trace; sleep {marker} & setsid sleep {marker} & sleep {marker}")["outcome"])
        say(run("echo y >> trace")["outcome"]["result"])
        call("finish", success=False)
        """,
    )
    goal = clew.start().submit(foreign("worker"))
    clew.until(lambda: len(running(marker)) >= 3)
    os.kill(clew.executor_pid(goal), signal.SIGKILL)
    interrupted = clew.wait("action.interrupted", goal=goal)
    assert interrupted["reason"] == "executor_died"
    assert not running(marker)
    clew.wait("goal.failed", goal=goal)
    said = clew.said(goal, count=2)
    assert (said[0]["result"], said[1]) == ("interrupted", "success")
    assert clew.lines(goal, "trace") == ["x", "y"]
    assert [e["epoch"] for e in clew.seen("worker.started", goal=goal)] == [1]


def test_an_agent_that_is_alive_but_beats_is_not_hung_and_waiting_for_the_daemon_counts(make_clew):
    clew = make_clew({"heartbeat.timeout_s": 1.0})
    clew.agent(
        "patient",
        """
        call("hello", protocol=1, agent="silent/1")  # no heartbeat at all
        for i in range(2):
            run(f"sleep 1.6; echo {i}")
        call("complete_subtask", success=True)
        call("advance")
        done()
        """,
    )
    goal = clew.start().completed(foreign("patient"))
    assert not clew.seen("worker.hung")
    assert len(clew.seen("worker.started", goal=goal)) == 1


def test_a_program_that_never_says_hello_is_named_as_such_with_what_it_printed(clew):
    clew.configure({"agents.mute.command": ["/bin/echo", "hi"], "restart.max_restarts": 1})
    goal = clew.start().submit(foreign("mute"))
    blocked = clew.wait("goal.blocked", goal=goal)
    assert "it does not say hello" in blocked["reason"]
    assert "It printed last: hi" in blocked["question"].splitlines()


def test_a_worker_over_its_memory_is_killed(make_clew):
    clew = make_clew({"limits.memory_mb": 150})
    clew.agent(
        "hog",
        """
        hello()
        if epoch == 1:
            hoard = bytearray(300 << 20)
            notice("never")
        done(); call("advance"); done()
        """,
    )
    goal = clew.start().completed(foreign("hog"))
    assert clew.seen("worker.exited", goal=goal)[0]["reason"] == "memory"


def kill_executor(clew, goal):
    os.kill(clew.executor_pid(goal), signal.SIGKILL)


def kill_daemon(clew, _goal):
    clew.daemon.send_signal(signal.SIGSTOP)  # one that is only slow
    assert "when the daemon runs" not in clew.cli("status")
    clew.kill()
    assert "asks you when the daemon runs: the step " in clew.cli("status")
    clew.start()


def stop_daemon(clew, _goal):
    clew.stop()
    clew.start()


@pytest.mark.parametrize(
    ("cut_off", "why"),
    [
        (lambda clew, goal: clew.kill_agent(goal), "cut off: its worker was killed by SIGKILL"),
        (kill_executor, "the process that runs the actions died"),
        (kill_daemon, "the daemon died"),
        (stop_daemon, "its worker was stopped"),
    ],
    ids=["agent", "executor", "daemon", "stop"],
)
def test_a_runbooks_step_that_was_cut_off_runs_again_at_a_persons_word_only_and_all_say_so(
    clew, cut_off, why
):
    clew.configure({"restart.stop_grace_s": 0.5})
    goal = clew.start().submit(
        STEPS.replace("echo begun >> begun", "echo begun >> begun; echo half")
    )
    clew.until(lambda: (clew.goal(goal)["now"] or {}).get("said"), "the output is heard of")
    cut_off(clew, goal)
    asked = clew.wait("goal.blocked", goal=goal)["question"]
    assert "`echo begun >> begun; echo half; until test -e go" in asked
    assert why in asked
    is_known = cut_off is not kill_daemon
    assert (", and it ran for " in asked) == is_known
    assert ("Last line of its output: half" in asked) == is_known
    assert ("`clew show " in asked) == is_known
    assert "Changed in the workspace since: begun\n" in asked
    assert f"`clew continue {goal}`" in asked
    assert "complete_subtask" not in asked
    assert clew.lines(goal, "begun") == ["begun"]
    (clew.workspace(goal) / "go").touch()
    clew.cli("continue", goal)
    clew.wait("goal.completed", goal=goal)
    assert clew.lines(goal, "begun") == ["begun", "begun"]
    actions = json.loads(clew.cli("history", goal, "--json"))["actions"]
    assert [one.get("run") for one in actions] == [None, None, 2, None]
    [again] = json.loads(clew.cli("status", goal, "--json"))["goal"]["reruns"]
    assert (again["times"], again["results"]) == (2, ["interrupted"])
    assert "ran twice: #" in clew.cli("status", goal)
    assert "worked, 2nd run" in clew.cli("history", goal)
    clew.until(lambda: "ran twice: #" in clew.report(goal), "the report says so")


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_a_nursery_that_dies_or_hangs_takes_no_worker_along_and_is_renewed(clew, signum):
    clew.start_patched("from clew_daemon.processes import nursery\nnursery.SPAWN_TIMEOUT_S = 5.0")
    goal = clew.submit(STEPS, "a.md")
    clew.until(lambda: clew.lines(goal, "begun"))
    pid = clew.until(
        lambda: nursery(clew.daemon.pid), "the nursery is seen"
    )  # 0 would be this whole group
    os.kill(pid, signum)
    clew.completed(STEPS.replace("until test -e go; do sleep 0.02; done; ", ""), "b.md")
    (clew.workspace(goal) / "go").touch()
    clew.wait("goal.completed", goal=goal)
    assert [e["epoch"] for e in clew.seen("worker.started", goal=goal)] == [1]


def test_twenty_restarts_leak_no_descriptor_and_no_process(clew):
    clew.agent("broken", "hello()\nrun('true &')\nos._exit(3)")
    clew.configure({"restart.max_restarts": 10})
    clew.start()
    counts = []
    for name in ("a.md", "b.md"):
        goal = clew.submit(foreign("broken"), name)
        clew.wait("goal.blocked", goal=goal)
        clew.report(goal)
        clew.until(lambda: len(children(clew.daemon.pid)) == 1, "only the nursery is left")
        counts.append(len(descriptors(clew)[0]))
    # a folder that is being synced just now is no leak
    clew.until(
        lambda: len(descriptors(clew)[0]) <= counts[0],
        f"no more than {counts[0]} descriptors ({descriptors(clew)})",
    )
    assert len(descriptors(clew)[1]) < 24


def descriptors(clew):
    """What the daemon has open, without these, and the ledger's files, of which there may be more later."""
    places = []
    for fd in Path(f"/proc/{clew.daemon.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            places.append(str(fd.readlink()))
    ledger = [place for place in places if "/state/ledger.db" in place]
    return sorted(place for place in places if place not in ledger), ledger


UNSTARTED = [
    ("#!/nowhere/python\n", "needs /nowhere/python, which does not exist"),
    ("#!/usr/bin/env no-such-program\n", "needs no-such-program, which is not on the PATH"),
    (
        "print('hello')\n",
        "Exec format error (a script begins with a line such as #!/bin/sh); correct",
    ),
    ("\x7fELF of another machine", "Exec format error"),
]


def test_a_command_that_cannot_be_started_blocks_its_goal_at_once(clew, tmp_path):
    for number, (text, _) in enumerate(UNSTARTED):
        program = tmp_path / f"agent{number}"
        program.write_text(text)
        program.chmod(0o755)
        clew.configure({f"agents.broken{number}.command": [str(program)]})
    clew.start()
    for number, (_, why) in enumerate(UNSTARTED):
        goal = clew.submit(foreign(f"broken{number}"), f"{number}.md")
        clew.wait("goal.blocked", goal=goal)
        told = clew.goal(goal)
        assert why in told["reason"]
        assert "correct `command` of the agent" in told["reason"]
        assert told["restarts"] == 0


def test_the_last_line_that_an_agent_printed_stands_in_the_question(clew):
    clew.configure({"restart.max_restarts": 1, "restart.backoff_initial_s": 0.01})
    ends = ("os._exit(78)", "os._exit(1)", "os._exit(0)", "os.abort()")
    for number, end in enumerate(ends):
        body = f"hello()\nprint('one\\nno license', flush=True)\n{end}"
        clew.agent(f"talker{number}", body)
    clew.start()
    goals = [clew.submit(foreign(f"talker{n}"), f"{n}.md") for n in range(len(ends))]
    for goal, end in zip(goals, ends, strict=True):
        clew.wait("goal.blocked", goal=goal)
        assert "no license" in clew.report(goal), end


@pytest.mark.cold
def test_a_second_sigint_kills_at_once_and_nothing_is_lost(make_clew):
    clew = make_clew({"restart.stop_grace_s": 60.0})
    marker = f"7{uuid.uuid4().int % 10**9}"
    clew.agent("deaf", f"hello()\nrun('sleep {marker} &')\nnotice('never')")
    goal = clew.start().submit(foreign("deaf"))
    clew.until(lambda: running(marker))
    clew.daemon.send_signal(signal.SIGINT)
    clew.wait("daemon.stopping")
    assert clew.stop(signal.SIGINT) == 1
    assert not running(marker)
    assert clew.verified()
    clew.configure({"restart.stop_grace_s": 0.5})  # the agent is deaf to the end of the test, too
    clew.start()
    assert clew.goal(goal)["status"] == "in_progress"


ONE = "# Do it\n\n## S\n- [ ] one\n  ```sh\n  {cmd}\n  ```\n"
UNTIL = "test -e go || echo x >> begun; until test -e go; do sleep 0.02; done"


UNEXPECTED = """
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
"""
"""A daemon in whose executors every tool meets an error that nobody has thought of."""


def kill_at_its_check(clew, goal):
    clew.until(lambda: clew.lines(goal, "begun") == ["x"])
    os.kill(clew.executor_pid(goal), signal.SIGKILL)
    clew.until(lambda: clew.lines(goal, "begun") == ["x", "x"])
    (clew.workspace(goal) / "go").touch()


def test_a_check_whose_executor_died_is_run_again_and_does_not_fail_the_goal(clew):
    front = f"---\nchecks: {{slow: '{UNTIL}'}}\n---\n"
    goal = clew.start().submit(front + ONE.format(cmd="true"))
    kill_at_its_check(clew, goal)
    clew.wait("goal.completed", goal=goal)
    assert clew.seen("executor.died", goal=goal)
    assert not clew.seen("check.failed", goal=goal)


def test_an_error_of_the_executor_that_nobody_expected_is_named_in_the_log_and_the_question(clew):
    clew.start_patched(UNEXPECTED)
    goal = clew.submit(ONE.format(cmd="true"))
    clew.wait("goal.blocked", goal=goal)
    error = "OverflowError: int too large to convert"
    assert error in clew.seen("executor.died", goal=goal)[0]["reason"]
    cut_off = clew.seen("action.interrupted", goal=goal)[0]
    assert (cut_off["reason"], error in cut_off["detail"]) == ("executor_died", True)
    said = clew.cli("status", goal)
    assert error in said, said


GOAL = "# Work\n\n## S\n- [ ] one\n  ```sh\n  true\n  ```\n"
FAULTS = {
    "a module that is missing since an upgrade": """
from clew_daemon.session.conversation import Conversation
def choose(self):
    import clew_daemon.no_longer_there
Conversation._choose_strategies = choose
""",
    "an error while the goal is queued": """
from clew_daemon.record.goals import GoalStore
emit = GoalStore.emit
async def failing(self, core, event, *rest, **named):
    if event.kind == "goal_started":
        raise ZeroDivisionError("division by zero")
    await emit(self, core, event, *rest, **named)
GoalStore.emit = failing
""",
    "an event that the fold cannot take in": """
from clew_shared.record.events import ActionAllowed
real = ActionAllowed.into
def half(self, state):
    real(self, state)
    raise IndexError("list index out of range")
ActionAllowed.into = half
""",
}
SAID = (
    "ModuleNotFoundError: No module named",
    "ZeroDivisionError: division",
    "IndexError: list index",
)


@pytest.mark.parametrize(("fault", "said"), [*zip(FAULTS.values(), SAID, strict=True)], ids=FAULTS)
def test_an_unexpected_error_in_a_run_ends_at_a_person(make_clew, fault, said):
    clew = make_clew({"restart.max_restarts": 3, "restart.backoff_initial_s": 0.05})
    clew.start_patched(fault)
    goal = clew.submit(GOAL)
    blocked = clew.wait("goal.blocked", goal=goal)
    assert said in blocked["reason"]
    assert said in blocked["question"]
    assert "clew continue" in blocked["question"]
    failed = clew.seen("goal.run_failed", goal=goal) + clew.seen("daemon.bug", goal=goal)
    assert len(failed) == 4
    assert all("Traceback" in str(line) for line in failed)
    assert clew.goal(goal)["pid"] is None
    clew.kill()
    since = clew.now()
    clew.start()  # whole again
    clew.ask("resume", goal=goal)
    clew.wait("goal.completed", goal=goal, since=since)
    clew.stop()
    clew.events.clear()  # these faults were wanted
