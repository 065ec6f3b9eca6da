import time

import pytest
from goal_daemon import GoalDaemon, subtask, task

from clew_shared.record import events as ev


def write(path, content="x"):
    return ("write_file", {"path": path, "content": content})


def run(cmd):
    return ("run_cmd", {"cmd": cmd})


@pytest.fixture
def make(tmp_path):
    def build(*subtasks, **options):
        return GoalDaemon(tmp_path, tasks=(task("Do it", *subtasks),), runbook=True, **options)

    return build


async def test_a_step_that_fails_is_left_to_a_person_at_whose_word_it_runs_again(make, run_runbook):
    daemon = make(subtask("fails", write("a"), run("echo x >> ran; exit 3")))
    for times in (1, 2):
        assert await run_runbook(daemon) == 0
        assert "exit code 3" in daemon.params("complete_subtask")[-1]["failure"]
        assert daemon.finished is None
        assert daemon.state.goal.status == "blocked"
        assert (daemon.folder / "ran").read_text() == times * "x\n"
        daemon.emit(ev.GoalRequeued(by="continue", reopen=True, lifts=True))
        daemon.emit(ev.GoalStarted())
        daemon.begin_epoch()
    assert [run.times for run in daemon.state.attempts.reruns] == [2]


async def test_failing_checks_end_the_goal_as_failed_with_their_names(make, run_runbook):
    daemon = make(subtask("one", write("a")), checks={"has_b": "test -f b"})
    assert await run_runbook(daemon) == 0
    assert daemon.finished == (False, "checks failed: has_b")


async def test_an_interrupted_step_is_a_persons_question_each_time(make, run_runbook):
    daemon = make(subtask("one", run("echo 1 >> log")))
    for _ in range(2):  # feedback that was given for an earlier question is no word on this one
        interrupt(daemon, run("echo 1 >> log"))
        assert await run_runbook(daemon) == 0
        assert "`echo 1 >> log` was cut off" in daemon.state.question
        assert not (daemon.folder / "log").exists()
        daemon.emit(ev.FeedbackGiven(text="yes, do"))
        daemon.emit(ev.GoalRequeued(by="feedback", reopen=True))
        daemon.emit(ev.GoalStarted())
        daemon.begin_epoch()
    assert await run_runbook(daemon) == 0
    assert daemon.finished[0] is True


def interrupt(daemon, step):
    tool, args = step
    daemon.core.propose(tool, args, time.time())
    daemon.core.interrupt("worker_exited", time.time(), counts=False)
    daemon.begin_epoch()
