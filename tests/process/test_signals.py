"""Signals to the real daemon: SIGTERM, SIGINT, SIGHUP, and what they leave unchanged."""

import signal
import time
import uuid

import pytest
from of_proc import running

pytestmark = pytest.mark.cold


def foreign(name):
    return f"---\nagent: {name}\n---\n# Do it\n\n## A task\n- [ ] First\n- [ ] Second\n"


def test_an_agent_that_does_not_stop_is_killed_after_its_grace(make_clew):
    clew = make_clew({"restart.stop_grace_s": 0.5})
    clew.agent("deaf", "import signal\nsignal.signal(15, signal.SIG_IGN)\nhello()\nnotice('never')")
    goal = clew.start().submit(foreign("deaf"))
    clew.wait("worker.ready", goal=goal)
    began = time.monotonic()
    assert clew.stop() == 0
    assert time.monotonic() - began < 20


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
