import asyncio
import time

import pytest
from goal_daemon import GoalDaemon, subtask, task

from clew_shared.record import events as ev
from clew_worker.agent.life import live
from clew_worker.agent.runbook import Runbook


def write(path, content="x"):
    return ("write_file", {"path": path, "content": content})


def run(cmd):
    return ("run_cmd", {"cmd": cmd})


@pytest.fixture
def make(tmp_path):
    def build(*subtasks, **options):
        return GoalDaemon(tmp_path, tasks=(task("Do it", *subtasks),), **options)

    return build


async def test_every_step_is_carried_out_in_order_and_the_goal_finished(make, run_runbook):
    steps = (run("echo 1 >> log"), run("echo 2 >> log"))
    daemon = make(subtask("first", *steps), subtask("second", run("echo 3 >> log")))
    assert await run_runbook(daemon) == 0
    assert (daemon.folder / "log").read_text() == "1\n2\n3\n"
    assert daemon.finished[0] is True
    assert daemon.count("reflect") == 2


async def test_after_a_restart_it_goes_on_at_the_very_step(make, run_runbook, connect):
    steps = [run(f"echo {n} >> log") for n in range(30)]
    daemon = make(subtask("many", *steps))
    async with connect(daemon) as sock:
        daemon.silent_from["act"] = 25
        agent = asyncio.create_task(live(sock, Runbook))
        await _count(daemon, "act", 25)
        agent.cancel()
        await asyncio.gather(agent, return_exceptions=True)
    daemon.begin_epoch()
    assert await run_runbook(daemon) == 0
    assert (daemon.folder / "log").read_text().split() == [str(n) for n in range(30)]


async def test_a_step_that_fails_is_tried_once_more_and_then_left_to_a_person(make, run_runbook):
    daemon = make(subtask("fails", write("a"), run("echo no; exit 3")))
    assert await run_runbook(daemon) == 0
    assert [p["tool"] for p in daemon.params("act")] == ["write_file", "run_cmd", "run_cmd"]
    assert "exit code 3" in daemon.params("complete_subtask")[0]["failure"]
    assert daemon.finished is None
    assert daemon.state.replan_required == "task"


async def test_a_step_that_works_at_the_second_attempt_is_enough(make, run_runbook):
    flaky = run("test -f once || { touch once; exit 1; }")
    daemon = make(subtask("flaky", flaky), subtask("then", write("b")))
    assert await run_runbook(daemon) == 0
    assert daemon.finished[0] is True
    assert (daemon.folder / "b").exists()


async def test_failing_checks_end_the_goal_as_failed_with_their_names(make, run_runbook):
    daemon = make(subtask("one", write("a")), checks={"has_b": "test -f b"})
    assert await run_runbook(daemon) == 0
    assert daemon.finished == (False, "checks failed: has_b")


async def test_a_subtask_without_a_block_is_a_matter_of_configuration(make, run_runbook):
    daemon = make(subtask("one", write("a")), subtask("think hard"))
    assert await run_runbook(daemon) == 78
    assert '"think hard" has no runnable block' in daemon.left.reason


async def test_an_interrupted_step_is_proposed_again_as_a_new_action(make, run_runbook):
    daemon = make(subtask("one", run("echo 1 >> log")))
    interrupt(daemon, run("echo 1 >> log"))
    assert await run_runbook(daemon) == 0
    assert daemon.count("act") == 1
    assert daemon.finished[0] is True


async def test_an_interrupted_step_is_a_persons_question_where_the_goal_asks_for_that(
    make, run_runbook
):
    daemon = make(subtask("one", run("echo 1 >> log")), on_interrupt="ask")
    interrupt(daemon, run("echo 1 >> log"))
    assert await run_runbook(daemon) == 78
    assert "may it be run again?" in daemon.left.reason
    daemon.feedback.append("yes, do")
    assert await run_runbook(daemon) == 0
    assert daemon.finished[0] is True


def interrupt(daemon, step):
    tool, args = step
    verdict = daemon.core.propose(tool, args, time.time())
    daemon.core.interrupt("worker_exited", time.time(), counts=True)
    entry = {"seq": verdict.seq, "name": tool, "args": args, "result": "interrupted", "output": ""}
    daemon.history.append(((0, 0), entry))
    daemon.begin_epoch()


async def test_a_refused_step_counts_as_failed_with_the_refusals_words(make, run_runbook):
    again = [run("cat missing")] * 2
    daemon = make(subtask("stuck", *again))
    daemon.emit(ev.FeedbackGiven(text="go"))
    assert await run_runbook(daemon) == 0
    assert daemon.state.replan_required == "task"


async def _count(daemon, method, number):
    async with asyncio.timeout(30):
        while daemon.count(method) < number:
            daemon.arrived.clear()
            await daemon.arrived.wait()
