"""What a step brings, the measure behind `nothing_new`; and when an agent is told that it gets no further, and what."""

import json
import random

import pytest

from clew_shared.core.answers import ActionReport
from clew_shared.judge import reading
from clew_shared.record import codec
from clew_shared.record import scope as scopes
from clew_shared.record.scope import UNKNOWN


def test_what_is_remembered_stays_below_64_kb_and_is_json(played):
    agent, dice = played(), random.Random(7)
    for n in range(3000):
        output = "\n".join(f"line {dice.getrandbits(40)} of part{dice.random()}" for _ in range(30))
        agent.run(f"look {n} in folder{n}/file{n}.txt", output=output)
        agent.core.take()
        agent.state.subtask.actions.clear()
    body = json.loads(codec.dump(agent.state))["loops"]["scope"]["memory"]
    assert len(json.dumps(body, separators=(",", ":"))) <= 64_000


MASKED = {
    "built in 3.4s at 2026-11-21T10:00:00.123Z": "built in <d> at <t>",
    "pid 1234 started": "pid <id> started",
    "3 failed, 17 passed in 0.12s": "3 failed, 17 passed in <d>",
    "request_id: req_9f8a7b6c5d": "request_id: <id>",
    **{same: same for same in ("job 3 of 10", "python3.11 f10.py utf8 sha256", "no number at all")},
}


def test_only_times_durations_and_ids_are_left_out():
    assert {text: reading.masked(reading.laid_out(text)) for text in MASKED} == MASKED


def test_what_is_refused_because_the_daemon_stops_is_no_idle_step(agent):
    for n in range(20):
        agent.core.turn_away("run_cmd", {"cmd": f"step {n}"}, 1.0, "stopping")
    assert agent.state.loops.scope.memory.debt.shares == 0


def test_the_state_of_a_goal_that_works_on_and_on_does_not_grow(played, monkeypatch):
    monkeypatch.setattr(scopes, "ENTRIES_MAX", most := 400)
    agent = played(max_actions=10**9)
    for n in range(2 * most):
        agent.record("edit_file", {"line": n}, output=f"{n}", changed=True, world=f"w{n}")
    scope = agent.state.loops.scope
    counted = (scope.worlds, scope.loop_counts, scope.writers, agent.state.loops.changes)
    assert max(sum(map(len, scope.tallies.values())), *map(len, counted)) < most + 1
    assert agent.state.actions_total == 2 * most


@pytest.fixture
def large(agent, monkeypatch):
    """An agent in a workspace of which no look sees everything; what is allowed of a command."""
    monkeypatch.setattr(type(agent), "world", UNKNOWN)
    agent.core.see_world(UNKNOWN, 0.0)

    def run(cmd, result="success", output=""):
        verdict = agent.propose("run_cmd", {"cmd": cmd})
        if verdict.allowed:
            agent.core.outcome(verdict.seq, ActionReport(result, output, None, UNKNOWN), 0.0)
        return verdict.allowed

    return run


def test_tests_between_edits_that_no_look_sees_are_work(large):
    for n in range(12):
        assert large("pytest", "failure", "2 failed"), n
        assert large(f"sed -i s/{n}/{n + 1}/ far/away.py"), n


def test_the_same_failing_command_is_a_loop_where_no_look_sees_everything(large):
    said = [large("make", "failure", "2 failed") for _ in range(4)]
    assert said == [True, True, False, False]


PLANS = ("I plan", "the strategy is", "my approach")
NAMES = ("parser", "lexer", "printer", "writer", "reader")


def thinks(*texts, tools=False):
    return [lambda agent, text=text: agent.think(text, tools=tools) for text in texts]


def says(*assessments):
    return [lambda agent, said=said: agent.reflect(said) for said in assessments]


def reads(n):
    return lambda agent: agent.read(f"file {n}", f"text {n}").word


def broken(n):
    return lambda agent: agent.fail(f"make {n}", f"broken {n}x").word


def asks(name):
    return lambda agent: (
        agent.fail(f"curl http://h/{name}", f"http://h/{name}: 401 Unauthorized").word
    )


TOLD = {
    "three thoughts of one theme": ({}, thinks(*PLANS), "theme"),
    "theme_window": ({"theme_window": 2}, thinks("I plan", "I plan"), "theme"),
    "three thoughts without an act": ({}, thinks("hm 1", "hm 2", "hm 3"), "repeated_planning"),
    "thoughts_without_tools": ({"thoughts_without_tools": 2}, thinks("hm", "hm"), "repeated_planning"),
    "five turns without a fact": ({}, says(*["advancing"] * 5), "no_progress"),
    "the same error": ({}, [asks(n) for n in "abc"], "same_error"),
    "stuck three times": ({}, says("stuck", "regressing", "stuck"), "stuck"),
}  # fmt: skip

SILENT = {
    "a planet is no plan": thinks(*["the planet"] * 5, tools=True),
    "thoughts with tool calls": thinks(*["hm"] * 8, "", *["Let me go on"] * 8, tools=True),
    "acts between thoughts": [m for n in range(6) for m in (*thinks(f"hm {n}", f"well {n}"), reads(n))],
    "searches that find something": [m for n in range(9) for m in (*thinks("I search", tools=True), reads(n))],
    "one sentence about ever other things":
        [m for n, name in enumerate(NAMES) for m in (*thinks(f"I fix the {name}", tools=True), broken(n))],
    "turns that bring facts": [move for n in range(20) for move in (reads(n), *says("advancing"))],
    "advancing ends the row of being stuck": says("stuck", "stuck", "advancing", "stuck"),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_it_is_told_at_the_limit_and_not_before(played, name):
    loops, moves, kind = TOLD[name]
    agent = played(**loops)
    assert [move(agent) for move in moves] == [""] * (len(moves) - 1) + [kind]
    kinds = [event.kind for _, event in agent.take()]
    assert kinds[-2:] == ["intervened", "loop_detected"]  # on record before it is said


@pytest.mark.parametrize("name", SILENT)
def test_work_is_not_spoken_of(agent, name):
    assert {move(agent) for move in SILENT[name]} == {""}


@pytest.mark.parametrize(
    ("result", "output"), [("success", "state: building"), ("failure", "curl: connection refused")]
)
def test_an_honest_poll_is_told_to_wait_longer_and_never_that_it_ignored(agent, result, output):
    for _ in range(40):
        agent.think("I check and search for the state of the build", tools=True)
        assert agent.run("curl -s http://ci/build/7", result, output).allowed
        agent.reflect("advancing")
        agent.act("wait", {"seconds": 60, "why": "the build"})
        agent.reflect("advancing")
    words = [event for _, event in agent.take() if event.kind == "intervened"]
    assert 1 <= len(words) <= 40 / 5
    assert {word.again for word in words} == {False}
    assert all("wait longer between looks" in word.message.lower() for word in words), words
    assert not agent.state.loops.ignored_interventions
    assert agent.state.subtask.attempts == 0
