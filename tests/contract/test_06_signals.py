"""Section 6: signals, exit codes, the service manager."""

import os
import signal
import socket

import pytest

IDLE = "hello()\nnotice('stop')\n"


def test_hup_applies_thresholds_to_running_agents_and_lists_the_change(clew):
    clew.agent("waits", "hello()\nsay(str(notice('thresholds'))[:400])\nnotice('stop')\n")
    goal = clew.start().submit("---\nagent: waits\n---\n# Wait\n")
    clew.wait("worker.ready", goal=goal)
    clew.configure({"loops.repeat_limit": 5})
    clew.daemon.send_signal(signal.SIGHUP)
    changed = str(clew.wait("config.reloaded")["changed"])
    assert "repeat_limit" in changed
    assert "5" in str(clew.said(goal))


def test_hup_with_a_wrong_config_changes_nothing(clew):
    clew.start()
    clew.configure({"loops.repeat_limit": 0, "loops.no_such": 1})
    clew.daemon.send_signal(signal.SIGHUP)
    rejected = str(clew.wait("config.rejected"))
    assert "repeat_limit" in rejected
    assert "no_such" in rejected
    assert clew.ask("status")["daemon"]["config_error"]
    assert clew.answers()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_all_and_the_goal_goes_on_at_the_next_start(clew, signum):
    clew.agent("idle", IDLE)
    goal = clew.start().submit("---\nagent: idle\n---\n# Wait\n")
    clew.wait("worker.ready", goal=goal)
    assert clew.stop(signum) == 0
    clew.start()
    clew.wait("worker.ready", goal=goal, count=2)
    assert clew.goal(goal)["restarts"] == 0


def test_an_action_that_ends_within_the_grace_has_its_outcome_recorded(clew):
    clew.agent("slow", "hello()\nrun('touch begun; sleep 1; echo end')\nnotice('stop')\n")
    goal = clew.start().submit("---\nagent: slow\n---\n# Work\n")
    clew.until((clew.workspace(goal) / "begun").exists)
    clew.stop()
    clew.start()
    (first,) = clew.until(lambda: clew.history(goal))[:1]
    assert (first["result"], first["output"].strip()) == ("success", "end")


def test_workers_die_with_a_daemon_that_is_killed_and_it_goes_on_from_the_record(clew):
    clew.agent(
        "two",
        """
        state = hello()["state"]
        done_before = state["goal"]["tasks"][0]["subtasks"][0]["actions_total"]
        say(done_before)
        if not done_before:
            run("touch first")
            notice("stop")
        done()
        """,
    )
    goal = clew.start().submit("---\nagent: two\n---\n# Work\n")
    clew.wait("action.finished", goal=goal)
    clew.kill()
    clew.start()
    clew.wait("goal.completed", goal=goal)
    assert clew.said(goal, count=2) == [0, 1]


EXITS = {75: ("waiting", 0), 78: ("blocked", 0)}


@pytest.mark.parametrize("code", EXITS)
def test_exit_codes_of_a_worker(clew, code):
    clew.agent("exits", f"hello()\nimport os\nos._exit({code})\n")
    goal = clew.start().submit("---\nagent: exits\n---\n# Exit\n")
    status, restarts = EXITS[code]
    clew.until(lambda: clew.goal(goal)["status"] == status)
    assert clew.goal(goal)["restarts"] == restarts


@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), 9)", "os._exit(0)"])
def test_any_other_end_is_a_crash_and_the_worker_is_restarted(clew, end):
    clew.agent("crashes", f"hello()\nimport os\nif epoch == 1:\n    {end}\ndone()\n")
    goal = clew.start().completed("---\nagent: crashes\n---\n# Crash\n")
    assert clew.goal(goal)["restarts"] == 1


def test_a_worker_that_falls_silent_is_killed_and_restarted(clew):
    clew.configure({"heartbeat.timeout_s": 1.0})
    clew.agent("silent", "import time\nif epoch == 1:\n    time.sleep(600)\nhello()\ndone()\n")
    goal = clew.start().submit("---\nagent: silent\n---\n# Sleep\n")
    clew.wait("worker.hung", goal=goal)
    clew.wait("goal.completed", goal=goal)


def test_the_service_manager_is_told(clew):
    path = clew.folder / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(60)
        clew.start(NOTIFY_SOCKET=str(path), WATCHDOG_USEC="2000000")
        os.kill(clew.daemon.pid, signal.SIGHUP)
        said = ""
        while not all(w in said for w in ("READY=1", "WATCHDOG=1", "RELOADING=1", "STATUS=")):
            said += manager.recv(4096).decode() + "\n"
        assert "MONOTONIC_USEC=" in said
        clew.daemon.terminate()
        while "STOPPING=1" not in said:
            said += manager.recv(4096).decode() + "\n"
