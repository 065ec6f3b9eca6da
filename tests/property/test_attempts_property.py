"""Whatever an agent does in its attempts: there are never more than allowed, and the record gives the same state."""

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from clew_shared.core.answers import WrongState
from clew_shared.core.journal import AttemptLimits
from clew_shared.record import events as ev
from clew_shared.record.fold import fold
from clew_shared.record.scope import EVERYWHERE
from clew_shared.record.snapshot import dump, load

CHECKS = st.sampled_from([(), ("tests",), ("lint",), ("lint", "tests")])
COMMANDS = st.one_of(
    st.tuples(st.just("fail"), st.sampled_from(["make", "tox"])),
    st.tuples(st.just("write"), st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"])),
    st.tuples(st.just("die"), st.just("run_cmd"), st.just({"cmd": "boom"})),
    st.tuples(st.just("think"), st.just("I plan the plan")),
    st.tuples(st.just("reflect"), st.sampled_from(["", "stuck"])),
    st.tuples(st.just("finish"), CHECKS, st.booleans()),
    st.tuples(st.just("give_up")),
    st.tuples(st.just("complete")),
    st.tuples(st.just("advance")),
    st.tuples(st.just("replan")),
    st.tuples(st.just("feedback")),
    st.tuples(st.just("resume")),
    st.tuples(st.just("restart")),
)


class Attempting:
    """A played agent with attempts, whose every step is checked against the promises."""

    def __init__(self, agent, limits):
        self.agent, self.core, self.limits = agent, agent.core, limits
        self.core.attempts = limits

    def do(self, name, *args):
        with suppress(WrongState):
            getattr(self, f"_{name}", getattr(self.agent, name, None))(*args)
        self._check()

    def _finish(self, failing, own_tools):
        self.core.refuse_finish(failing, 0.0, own_tools=own_tools)

    def _give_up(self):
        self.agent.complete(success=False, failure="no way")

    def _replan(self):
        if (level := self.agent.state.replan_required) in ("task", "goal"):
            self.agent.replan(level, ["another"])

    def _resume(self):
        if self.agent.state.goal.status == "blocked":
            self.agent.resume()

    def _check(self):
        state = self.agent.state
        assert 1 <= state.attempt.number <= self.limits.limit
        assert not (state.attempt.over and state.attempt.number == self.limits.limit)
        assert not (state.attempt.over and self.core.budget_spent(0.0))
        assert state.restarts == 0
        assert load(dump(state)) == state
        if state.attempt.over:
            self._check_that_nothing_runs()
            self._begin_next()

    def _check_that_nothing_runs(self):
        allowed = self.agent.state.actions_total
        self.agent.run("ls")
        assert self.agent.state.actions_total == allowed

    def _begin_next(self):
        state = self.agent.state
        number, failures = state.attempt.number, state.subtask.attempts
        self.core.emit(ev.WorkerExited(epoch=state.epoch, reason="attempt"))
        self.core.begin_attempt(0.0)
        self.core.emit(ev.WorkerStarted(epoch=state.epoch + 1))
        assert (state.attempt.number, state.subtask.attempts) == (number + 1, failures)
        assert state.scope.tallies == {}
        assert state.blocked_proposals == state.ignored_interventions == 0
        assert all(worlds == {EVERYWHERE: "crash"} for worlds in state.scope.blocks.values())


@settings(deadline=None)
@given(
    commands=st.lists(COMMANDS, max_size=60),
    limit=st.integers(1, 3),
    iterations=st.integers(1, 5),
    most=st.none() | st.integers(1, 8),
)
def test_attempts_stay_within_their_limits(played, commands, limit, iterations, most):
    agent = played(["one", "two"], spec={"max_iterations": most})
    attempting = Attempting(agent, AttemptLimits(limit, iterations))
    for command in commands:
        attempting.do(*command)
    rows = agent.take()
    assert dump(fold(rows)) == dump(agent.state)
    kinds = [event.kind for _, event in rows]
    if limit == 1:
        assert not {"attempt_ended", "attempt_started"} & set(kinds)


@settings(deadline=None)
@given(commands=st.lists(COMMANDS, max_size=60))
def test_a_failure_of_a_subtask_comes_after_its_last_attempt_only(played, commands):
    agent = played(["one", "two"])
    attempting = Attempting(agent, AttemptLimits(3, 3))
    for command in commands:
        number, subtask = agent.state.attempt.number, agent.state.subtask
        is_open = subtask is not None and subtask.status == "in_progress"
        before = len(agent.take())
        attempting.do(*command)
        new = [event.kind for _, event in agent.take()[before:]]
        assert "subtask_failed" not in new or number == 3 or not is_open
