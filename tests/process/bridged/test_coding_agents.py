"""Real coding agents work on goals behind clew's gate."""

import os
import signal

import harness
import psutil
import pytest
from scripted_endpoint import Call, Say
from two_files import TWO_FILES, worker

SLOW_S = int(os.environ.get("SLOW_S") or 100)
FAILING = Call("clew_run", {"cmd": "cat nothere"})
SLOW = "echo began >> began; sleep 3; echo ended >> ended"


def processes(clew, name):
    """The processes beneath the daemon whose command line has this text."""
    found = []
    for one in psutil.Process(clew.daemon.pid).children(recursive=True):
        try:
            if any(name in part for part in one.cmdline()):
                found.append(one.pid)
        except psutil.Error:
            continue
    return found


def kill_one(clew, name):
    pids = clew.until(lambda: processes(clew, name), f"a process of {name}")
    os.kill(pids[0], signal.SIGKILL)


def results(clew, goal):
    return [(one["name"], one["result"]) for one in clew.history(goal)]


def test_a_goal_of_two_subtasks_is_completed_and_the_third_equal_failure_refused(coder):
    made = coder([FAILING, FAILING, FAILING, *TWO_FILES])
    goal = made.submit()
    made.clew.wait("goal.completed", goal=goal)
    made.clew.wait("worker.exited", goal=goal)
    assert results(made.clew, goal) == [
        ("run_cmd", "failure"),
        ("run_cmd", "failure"),
        ("run_cmd", "blocked"),
        ("write_file", "success"),
        ("write_file", "success"),
    ]
    assert any("Refused, a loop" in text for text in made.texts())
    assert made.clew.goal(goal)["tokens"] > 0
    assert made.clew.goal(goal)["restarts"] == 0
    assert made.clew.verified()


CHECKED = """\
---
agent: coder
workspace: {}
checks:
  greets: sh run_tests.sh
---
# Make greet.sh say hello
"""


def test_an_agent_that_weakens_a_test_is_refused_puts_it_back_and_ends_proven(coder, tmp_path):
    folder, test = tmp_path / "project", '[ "$(sh greet.sh)" = hello ]\n'
    folder.mkdir()
    (folder / "greet.sh").write_text("echo hullo\n")
    (folder / "run_tests.sh").write_text(test)
    done = Call("clew_done", {"success": True, "summary": "it says hello"})
    made = coder(
        [
            Call("clew_write", {"path": "run_tests.sh", "content": "true\n"}),
            done,
            Call("clew_write", {"path": "run_tests.sh", "content": test}),
            Call("clew_write", {"path": "greet.sh", "content": "echo hello\n"}),
            done,
            Say("It says hello."),
        ]
    )
    goal = made.submit(CHECKED.format(folder))
    assert made.clew.wait("goal.completed", goal=goal)["proof"] == "proven"
    assert made.clew.wait("proof.refused", goal=goal)["label"] == "changed_tests"
    assert any("run_tests.sh" in text and "Not accepted" in text for text in made.texts())


@pytest.mark.long
@pytest.mark.timeout(SLOW_S + 900)
def test_a_call_of_minutes_is_one_action_and_no_client_gives_it_up(coder, monkeypatch):
    monkeypatch.setattr(harness, "DEADLINE_S", SLOW_S + harness.DEADLINE_S)
    slow = f"echo began >> began; sleep {SLOW_S}; echo ended >> ended"

    def step(seen):
        text = seen.results[-1] if seen.results else ""
        if "still running, #" in text:
            return Call("clew_wait", {"seq": int(text.partition("#")[2].partition(".")[0])})
        return worker(Call("clew_run", {"cmd": slow, "timeout_s": 2 * SLOW_S}))(seen)

    made = coder(step, **{"limits.action_timeout_s": 2 * SLOW_S})
    goal = made.submit()
    made.clew.wait("goal.completed", goal=goal)
    assert results(made.clew, goal)[0] == ("run_cmd", "success")
    assert made.clew.lines(goal, "ended") == ["ended"]
    assert [text for text in made.texts() if "still running, #1" in text] != []
    assert made.clew.goal(goal)["restarts"] == 0


@pytest.mark.long
def test_the_end_of_a_turn_is_not_the_end_of_the_goal(coder):
    made = coder([TWO_FILES[0], Say("I am done."), *TWO_FILES[1:]])
    goal = made.submit()
    made.clew.wait("goal.completed", goal=goal)
    assert results(made.clew, goal) == [("write_file", "success")] * 2


def test_a_question_waits_for_a_person_and_the_answer_reaches_the_model(coder):
    made = coder(worker(Call("clew_ask", {"question": "Which colour?"})))
    goal = made.submit()
    made.clew.wait("goal.blocked", goal=goal)
    assert "Which colour?" in made.clew.report(goal)
    made.clew.cli("feedback", goal, "Green.")
    made.clew.wait("goal.completed", goal=goal)
    assert any("Green." in str(one.body) for one in made.endpoint.talks)


@pytest.mark.parametrize(
    ("who", "restarts"), [("cli", 1), ("relay", None), ("bridge", 1), ("daemon", None)]
)
def test_whatever_is_killed_amid_an_action_the_goal_goes_on_and_nothing_is_repeated(
    coder, cli, who, restarts
):
    made = coder(worker(Call("clew_run", {"cmd": SLOW})))
    goal, clew = made.submit(), made.clew
    clew.until(lambda: clew.lines(goal, "began"), "the slow command")
    if who == "daemon":
        clew.kill()
        clew.start()
    elif who == "bridge":
        clew.kill_agent(goal)
    else:
        kill_one(clew, {"cli": f"/{cli}", "relay": "relay.py"}[who])
    clew.wait("goal.completed", goal=goal)
    assert clew.lines(goal, "began") == ["began"]
    assert restarts in (None, clew.goal(goal)["restarts"])
    assert clew.verified()
    clew.stop()  # nothing of the CLI is left
