"""Whatever an agent, a crash or a person does: the promises of the core hold at every step."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from clew_shared.core.answers import ActionReport, WrongState
from clew_shared.record import events as ev
from clew_shared.record.codec import dump, load
from clew_shared.record.fold import fold
from clew_shared.record.model import ACTIONS_KEPT, StepStatus
from clew_shared.record.scope import STEPS_KEPT
from clew_shared.record.signature import signature as signature_of

TOOLS = st.sampled_from(["run_cmd", "write_file", "edit_file", "read_file", "job_status", "wait"])
ARGS = st.fixed_dictionaries({"path": st.sampled_from(["a", "b", "./a"])})
RESULTS = st.sampled_from(["success", "failure", "error", "timeout"])
OUTPUTS = st.sampled_from([None, "", "pending", "1 failed in 0.1s", "HTTP 429", "no such file: a"])
WORLDS = st.sampled_from(["", "w1", "w2", "w3"])
CHANGED = st.sampled_from([None, None, True, False])
THOUGHTS = st.sampled_from(["I plan", "hm", "search for it"])
TREE = st.lists(st.sampled_from([["one"], ["one", "two"]]), min_size=1, max_size=2)

COMMANDS = st.one_of(
    st.tuples(st.just("act"), TOOLS, ARGS, RESULTS, OUTPUTS, CHANGED, WORLDS),
    st.tuples(st.just("act"), st.just("run_cmd"), ARGS, st.just("failure"), st.just("no"), st.none(), st.just("w1")),
    st.tuples(st.just("record"), TOOLS, ARGS, RESULTS, OUTPUTS, CHANGED, WORLDS),
    st.tuples(st.just("propose"), TOOLS, ARGS),
    st.tuples(st.just("late"), RESULTS, OUTPUTS),
    st.tuples(st.just("die"), st.booleans()),
    st.tuples(st.just("look"), WORLDS),
    st.tuples(st.just("think"), THOUGHTS, st.booleans()),
    st.tuples(st.just("reflect"), st.sampled_from(["", "stuck", "advancing"])),
    st.tuples(st.just("complete"), st.booleans()),
    st.tuples(st.just("advance")),
    st.tuples(st.just("plan"), st.sampled_from([None, "task", "goal"]), TREE),
    st.tuples(st.just("replan"), TREE),
    st.tuples(st.just("feedback")),
    st.tuples(st.just("resume")),
    st.tuples(st.just("unblock")),
    st.tuples(st.just("restart")),
)  # fmt: skip
WORK = st.one_of(
    st.tuples(st.just("act"), TOOLS, ARGS, RESULTS, OUTPUTS, st.none(), WORLDS),
    st.tuples(st.just("think"), THOUGHTS, st.booleans()),
    st.tuples(st.just("restart")),
)
LIMITS = {
    "repeat_limit": (2, 4),
    "failure_limit": (1, 2),
    "blocked_limit": (1, 3),
    "replan_limit": (1, 2),
}
LOOPS = st.fixed_dictionaries({}, optional={
    "scope": st.sampled_from(["subtask", "task", "goal"]),
    "progress_aware": st.booleans(),
    **{name: st.integers(*between) for name, between in LIMITS.items()},
})  # fmt: skip
REASONS = {
    "repetition", "alternation", "cycle", "crash", "blocked_action", "replan_required", "budget", "stopped",
}  # fmt: skip


class Watched:
    """A played agent whose every step is checked against the promises."""

    def __init__(self, agent):
        self.agent, self.ended, self.allowed, self.checked = agent, Counter(), set(), 0

    def do(self, command):
        name, *rest = command
        with suppress(WrongState):
            (getattr(self, "_" + name, None) or getattr(self.agent, name))(*rest)
        self._check_events()
        self._check_bounds()

    def _before(self, tool, args):
        """Say what must come of a proposal: "seen" where it may be refused at all."""
        state = self.agent.state
        signature = signature_of(tool, args, self.agent.core.state.spec.workspace)
        scope = state.loops.scope
        seen = signature in scope.tallies or signature in scope.loop_counts
        seen = seen or signature in scope.blocks or signature in scope.crashes
        at_work = state.subtask and state.subtask.status == "in_progress"  # else another one begins
        in_force = at_work and not state.plan.replan_required
        held = scope.blocks.get(signature, {}).get(state.loops.world) if in_force else None
        return seen, held

    def _judged(self, verdict, seen, held):
        assert verdict.allowed or verdict.reason in REASONS
        assert not (held and verdict.allowed)
        assert verdict.allowed or verdict.message
        assert verdict.allowed or seen or verdict.reason in ("replan_required", "budget", "stopped")
        return verdict

    def _act(self, tool, args, result, output, changed, world):
        verdict = self._propose(tool, args)
        if verdict.allowed:
            report = ActionReport(result, output, changed, world if changed is None else "")
            assert self.agent.core.outcome(verdict.seq, report, 0.0).known
            assert not self.agent.core.outcome(verdict.seq, report, 0.0).known

    def _record(self, tool, args, result, output, changed, world):
        before = self._before(tool, args)
        report = ActionReport(result, output, changed, world if changed is None else "")
        self._judged(self.agent.core.record(tool, args, report, 0.0), *before)

    def _propose(self, tool, args):
        before = self._before(tool, args)
        return self._judged(self.agent.core.propose(tool, args, 0.0), *before)

    def _late(self, result, output):
        for seq in list(self.agent.state.in_flight)[:1]:
            assert self.agent.core.outcome(seq, ActionReport(result, output), 0.0).known

    def _die(self, counts):
        self.agent.core.interrupt("killed", 0.0, counts=counts)
        assert self.agent.state.in_flight == {}

    def _look(self, world):
        self.agent.core.see_world(world, 0.0)

    def _think(self, text, tools):
        self.agent.think(text, tools=tools)

    def _complete(self, success):
        self.agent.complete(success=success, failure="no way")

    def _plan(self, replan, tasks):
        self.agent.replan(replan, *tasks)

    def _replan(self, tasks):
        if level := self.agent.state.plan.replan_required:
            self.agent.replan(level, *tasks[:1])

    def _resume(self):
        if self.agent.state.goal.status == "blocked":
            self.agent.resume()
            assert self.agent.state.plan.replan_required == ""

    def _unblock(self):
        for signature in self.agent.state.blocked_actions[:1]:
            self.agent.core.emit(ev.Unblocked(signature=signature))
            assert signature not in self.agent.state.blocked_actions

    def _restart(self):
        state = self.agent.state
        self.agent.restart()
        assert self.agent.state == state

    def _check_events(self):
        """Each allowed action ends at most once, and nothing that was refused runs."""
        rows = self.agent.take()
        for seq, event in rows[self.checked :]:
            match event:
                case ev.ActionAllowed():
                    self.allowed.add(seq)
                case ev.ActionBlocked() if event.done:
                    self.allowed.add(seq)
                case ev.ActionFinished() | ev.ActionInterrupted():
                    assert event.of in self.allowed
                    self.ended[event.of] += 1
                    assert self.ended[event.of] == 1
                case _:
                    pass
        self.checked = len(rows)

    def _check_bounds(self):
        state = self.agent.state
        assert len(state.loops.scope.steps) <= STEPS_KEPT
        assert all(len(s.actions) <= ACTIONS_KEPT for t in state.goal.tasks for s in t.subtasks)
        current = [s for t in state.goal.tasks for s in t.subtasks if s.status == "in_progress"]
        assert len(current) <= 1
        assert StepStatus(state.subtask.status)
        assert state.loops.attention.steps <= self.checked
        assert state.plan.replan_required in ("", "task", "goal", "person")
        assert (state.plan.replan_required == "person") <= (state.goal.status == "blocked")


@settings(max_examples=150, deadline=None)
@given(tree=TREE, loops=LOOPS, commands=st.lists(COMMANDS, max_size=40))
def test_whatever_happens_the_promises_hold(played, tree, loops, commands):
    watched = Watched(played(*tree, **loops))
    for command in commands:
        watched.do(command)
    rows = watched.agent.take()
    assert fold(rows) == watched.agent.state
    assert load(dump(watched.agent.state)) == watched.agent.state


@settings(max_examples=40, deadline=None)
@given(tree=TREE, loops=LOOPS, commands=st.lists(COMMANDS, max_size=25), data=st.data())
def test_every_prefix_is_a_state_to_go_on_from(played, tree, loops, commands, data):
    watched = Watched(played(*tree, **loops))
    for command in commands:
        watched.do(command)
    rows = watched.agent.take()
    cut = data.draw(st.integers(0, len(rows)))
    begun = load(dump(fold(rows[:cut])))
    assert fold(rows[cut:], begun) == watched.agent.state


@settings(max_examples=80, deadline=None)
@given(commands=st.lists(WORK, max_size=25), restarts=st.integers(0, 3))
def test_a_block_holds_while_the_world_stands_whatever_else_is_done(played, commands, restarts):
    agent = played(blocked_limit=1000)
    for _ in range(3):
        agent.fail("make", "no rule")
    watched = Watched(agent)
    for command in commands:
        watched.do(command)
        if agent.state.plan.replan_required:
            return
    for _ in range(restarts):
        agent.restart()
    agent.files.clear()
    agent.look()
    assert agent.state.loops.world == agent.world
    assert agent.fail("make").reason == "blocked_action"
