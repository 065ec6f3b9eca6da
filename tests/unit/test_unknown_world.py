"""Workspaces that cannot be measured whole: no real work is refused, and what fails again and again is."""

import pytest

from clew_shared.core.answers import ActionReport
from clew_shared.record.worlds import UNKNOWN


class Large:
    """An agent in a workspace of which no look sees everything."""

    def __init__(self, agent):
        self.agent, self.core = agent, agent.core
        agent.files = _Unseen()
        self.core.see_world(UNKNOWN, 0.0)

    def act(self, tool, args, result="success", output="", changed=None):
        verdict = self.agent.propose(tool, args)
        if verdict.allowed:
            report = ActionReport(result, output, changed, UNKNOWN)
            self.heard = self.core.outcome(verdict.seq, report, 0.0)
        return verdict.allowed

    def run(self, cmd, result="success", output=""):
        return self.act("run_cmd", {"cmd": cmd}, result, output)

    def fail(self, cmd, output="2 failed"):
        return self.run(cmd, "failure", output)


class _Unseen(dict):
    def items(self):
        raise AssertionError("measured")


@pytest.fixture
def large(agent, monkeypatch):
    monkeypatch.setattr(type(agent), "world", UNKNOWN)
    return Large(agent)


def test_tests_between_edits_that_no_look_sees_are_work(large):
    for n in range(12):
        assert large.fail("pytest"), n
        assert large.run(f"sed -i s/{n}/{n + 1}/ far/away.py"), n


def test_the_same_failing_command_is_a_loop(large):
    assert [large.fail("make") for _ in range(4)] == [True, True, False, False]
