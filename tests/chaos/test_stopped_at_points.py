"""Processes that are stopped (SIGSTOP) and not killed: who is stuck is replaced, who only slept is not blamed."""

import os
import signal
import time
from pathlib import Path

import pytest
from chaos_life import Life
from of_proc import alive, children

SHORT = {
    "clew_daemon.processes.executor:ANSWER_MARGIN_S": 1.0,
    "clew_daemon.processes.executor:DIGEST_TIMEOUT_S": 2.0,
    "clew_daemon.processes.nursery:SPAWN_TIMEOUT_S": 2.0,
}
CONFIG = {
    "heartbeat.interval_s": 0.2,
    "heartbeat.timeout_s": 2.0,
    "limits.action_timeout_s": 1.0,
    "limits.runbook_timeout_s": 1.0,
    "limits.check_timeout_s": 1.0,
    "loops.crash_limit": 50,  # what dies with its worker is not its own fault here
}
ASLEEP_S = 3.0
"""Longer than an agent may be silent."""

STUCK_AGENT = ("runbook.call.before", "runbook.send.after", "runbook.call.after")
STUCK_EXECUTOR = (
    "executor.next.after", "executor.effect.before", "executor.effect.after",
    "executor.send.before", "executor.send.after",
)  # fmt: skip
STUCK_NURSERY = (
    "nursery.serve_one.before", "nursery.spawn.before", "nursery.spawn.after",
    "nursery.serve_one.after", "cell.fork.before", "cell.payload.before", "cell.run.before",
)  # fmt: skip
ASLEEP = (
    ("ledger.commit.before", 20),
    ("ledger.commit.after", 30),
    ("agent.receive.after", 15),
    ("agent.send.before", 25),
    ("executor.ask.before", 7),
    ("executor.read.after", 12),
    ("publish.replace.before", 9),
    ("nursery.send.after", 3),
)


@pytest.fixture
def life(make_clew):
    return Life(make_clew(CONFIG))


def is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def tell_to_sleep(clew):
    clew.until(lambda: is_stopped(clew.daemon.pid), "the stop")
    time.sleep(ASLEEP_S)
    clew.daemon.send_signal(signal.SIGCONT)


def test_an_agent_is_not_taken_for_hung_because_the_daemon_slept(make_clew):
    clew = make_clew(CONFIG)
    clew.agent(
        "waiting",
        """
        import time
        hello()
        say("here")
        while not Path("go").exists():  # it beats, and has nothing to ask
            time.sleep(0.02)
        run("echo x >> trace")
        done()
        """,
    )
    goal = clew.start().submit("---\nagent: waiting\n---\nWait\n")
    clew.said(goal)
    clew.daemon.send_signal(signal.SIGSTOP)
    tell_to_sleep(clew)
    clew.ask("ping")
    (clew.workspace(goal) / "go").touch()
    clew.wait("goal.completed", goal=goal)
    assert not clew.seen("worker.hung")
    assert clew.goal(goal)["restarts"] == 0


@pytest.mark.long
@pytest.mark.parametrize(("point", "hit"), ASLEEP)
def test_a_daemon_that_slept_at(life, point, hit):
    order = life.order(point, (hit,), signal.SIGSTOP)
    life.start(order)
    tell_to_sleep(life.clew)
    life.finish()
    told = life.check()
    assert [one.state.restarts for one in told.values()] == [0, 0]


def stuck(life, point, hits=(2, 9)):
    life.live(life.order(point, hits, signal.SIGSTOP, SHORT))
    told = life.check()
    assert life.struck(point) >= hits[0]
    return told


@pytest.mark.long
@pytest.mark.parametrize("point", STUCK_AGENT)
def test_an_agent_that_is_stopped_is_hung_and_replaced(life, point):
    stuck(life, point)
    assert life.clew.seen("worker.hung")


@pytest.mark.long
@pytest.mark.parametrize("point", STUCK_EXECUTOR)
def test_an_executor_that_is_stopped_is_replaced_and_its_action_interrupted(life, point):
    stuck(life, point)
    assert life.clew.seen("executor.died")


@pytest.mark.long
@pytest.mark.parametrize("point", STUCK_NURSERY)
def test_a_nursery_or_a_cell_that_is_stopped_while_it_starts_is_replaced(life, point):
    stuck(life, point, (2, 5))


@pytest.mark.long
def test_nobody_outlives_a_daemon_that_is_killed_while_all_of_it_is_stopped(life):
    life.start(life.order("", ()))
    clew = life.clew
    goals = clew.until(lambda: len(clew.seen("worker.ready")) == 2 and clew.seen("worker.ready"))
    pids = [pid for child in children(clew.daemon.pid) for pid in (child, *children(child))]
    assert len(goals) == 2
    assert len(pids) > 4
    for pid in (*pids, clew.daemon.pid):
        if alive(pid):
            os.kill(pid, signal.SIGSTOP)
    clew.kill()
    life.live(life.order("", ()))
    life.check()
