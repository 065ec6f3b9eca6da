"""Attempts at a subtask: when one is over, what the next begins with, and what ends with the last."""

import pytest

from clew_daemon.record.goal_limits import limits_of, present_agent
from clew_shared.config.settings import load
from clew_shared.core.journal import AttemptGround, Limits
from clew_shared.record import events as ev
from clew_shared.record.spec import Spec
from clew_shared.record.state import State

CONFIG = """
[attempts]
ladder = [{}, {temperature = 0.7, mode = "json"}, {agent = "bigger"}]
[agents.small]
model = "small"
[agents.bigger]
model = "bigger"
[agents.own]
command = ["my-agent"]
[agents.coder]
cli = "codex"
[agents]
default = "small"
"""


class Stubborn:
    """A played agent with attempts, whose next worker starts when an attempt is over."""

    def __init__(self, agent, limit=3, iterations=10):
        self.agent, self.core = agent, agent.core
        self.core.limits = Limits(attempts=limit, attempt_turns=iterations)

    @property
    def state(self):
        return self.core.state

    @property
    def over(self):
        return self.state.attempt.over

    def finish(self, *failing):
        return self.core.refuse_finish(failing, 0.0, own_tools=False)

    def begin_next(self):
        assert self.over
        epoch = self.state.epoch
        self.core.emit(ev.WorkerExited(epoch=epoch, reason="attempt"))
        self.core.begin_attempt(1.0, AttemptGround(), rung="temperature 0.7")
        self.core.emit(ev.WorkerStarted(epoch=epoch + 1, agent="small"))


@pytest.fixture
def stubborn(played):
    return Stubborn(played(["one", "two"]))


ENDS = {
    "the same checks reject finish twice": lambda o: [o.finish("tests") for _ in range(2)],
    "interventions are ignored": lambda o: [o.agent.think("I plan the plan") for _ in range(40)],
    "blocked actions are proposed again": lambda o: [o.agent.fail("make") for _ in range(12)],
    "the agent gives the subtask up": lambda o: o.agent.complete(success=False, failure="no way"),
    "all iterations are used up": lambda o: [o.agent.reflect() for _ in range(10)],
}
GOES_ON = {
    "one rejected finish": lambda o: o.finish("tests"),
    "different checks reject finish": lambda o: [o.finish("tests"), o.finish("lint")],
    "the files changed between two": lambda o: [
        o.finish("tests"), o.agent.write("a.py", "x"), o.finish("tests"),
    ],
    "open subtasks reject finish": lambda o: [o.finish() for _ in range(2)],
    "an action fails twice": lambda o: [o.agent.fail("make") for _ in range(2)],
    "iterations are left": lambda o: [o.agent.reflect() for _ in range(9)],
    "the subtask is completed": lambda o: o.agent.complete(),
    "the worker dies": lambda o: o.agent.die("run_cmd", {"cmd": "a"}),
    "the goal waits for a person": lambda o: o.core.block(ev.GoalBlocked(reason="stuck")),
}  # fmt: skip


@pytest.mark.parametrize("case", ENDS)
def test_an_attempt_is_over_when(case, stubborn):
    ENDS[case](stubborn)
    assert stubborn.over
    assert stubborn.state.attempt.number == 1
    assert stubborn.state.subtask.attempts == 0
    assert "subtask_failed" not in [event.kind for _, event in stubborn.agent.take()]


@pytest.mark.parametrize("case", GOES_ON)
def test_an_attempt_goes_on_where(case, stubborn):
    GOES_ON[case](stubborn)
    assert not stubborn.over


def test_after_the_end_of_an_attempt_nothing_is_carried_out_in_it(stubborn):
    stubborn.agent.complete(success=False, failure="no way")
    answer = stubborn.agent.run("ls")
    assert (answer.allowed, answer.reason) == (False, "stopped")
    stubborn.begin_next()
    assert stubborn.agent.run("ls").allowed


def test_counts_and_blocks_start_afresh_but_for_crashes(stubborn):
    while stubborn.agent.fail("make").allowed:
        pass
    while stubborn.agent.die("run_cmd", {"cmd": "boom"}):
        pass
    assert len(stubborn.state.blocked_actions) == 2
    stubborn.agent.complete(success=False, failure="no way")
    stubborn.begin_next()
    assert stubborn.state.blocked_actions == ['run_cmd::{"cmd":"boom"}']
    assert stubborn.agent.fail("make").allowed
    assert not stubborn.agent.run("boom").allowed


@pytest.mark.parametrize("loops", [{"scope": "task"}, {"scope": "goal"}, {"progress_aware": False}])
def test_a_wider_scope_outlives_attempts(loops, played):
    one = Stubborn(played(["one"], **loops))
    while one.agent.fail("make").allowed:
        pass
    one.agent.complete(success=False, failure="no way")
    one.begin_next()
    assert not one.agent.fail("make").allowed


def test_what_was_tried_names_the_last_actions_and_why_each_attempt_ended(stubborn):
    stubborn.agent.fail("make", "no rule to make target")
    stubborn.agent.complete(success=False, failure="no way")
    first = stubborn.state.attempt.tried
    assert first == ("Attempt 1: run_cmd failed: no rule to make target; then ended: no way",)
    stubborn.begin_next()
    stubborn.agent.complete(success=False, failure="still no way")
    assert stubborn.state.attempt.tried == (*first, "Attempt 2: ended: still no way")


@pytest.mark.parametrize(
    ("agent", "attempts", "limit"),
    [("small", None, 3), ("small", 5, 5), ("small", 1, 1), ("own", None, 1), ("own", 2, 2),
     ("runbook", None, 1), ("unknown", None, 1), ("coder", None, 3)],
)  # fmt: skip
def test_how_many_attempts_a_goal_gets(agent, attempts, limit):
    state = State(spec=Spec(description="d", agent=agent, attempts=attempts))
    settings = load(CONFIG, {}, "config.toml").settings
    limits = limits_of(state, settings)
    assert (limits.attempts, limits.turns(1)) == (limit, 10)


@pytest.mark.parametrize(
    ("number", "name", "temperature", "mode"),
    [(1, "small", 0.2, "auto"), (2, "small", 0.7, "json"), (3, "bigger", 0.2, "auto"), (9, "bigger", 0.2, "auto")],
)  # fmt: skip
def test_each_attempt_has_the_agent_of_its_rung(number, name, temperature, mode):
    state = State(spec=Spec(description="d", agent="small"))
    state.attempt.number = number
    found, agent = present_agent(state, load(CONFIG, {}, "config.toml").settings)
    assert (found, agent.temperature, agent.mode) == (name, temperature, mode)


@pytest.mark.parametrize(("acts", "refused"), [(True, False), (False, False), (True, True)])
def test_an_attempt_that_only_ran_out_of_turns_keeps_what_it_has_done(played, acts, refused):
    one = Stubborn(played(["one"]))
    for turn in range(10):
        if acts:
            one.agent.write(f"{turn}.py", "x")
        if refused and turn == 8:
            one.finish("tests")
        one.agent.reflect()
    assert one.over
    assert one.state.attempt.advancing is (acts and not refused)
