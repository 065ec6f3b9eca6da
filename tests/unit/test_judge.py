"""What a step brings: the measure behind `nothing_new`, through the core that judges (docs/loops.md)."""

import json
import random

import pytest

from clew_shared.core.answers import ActionReport
from clew_shared.judge import reading
from clew_shared.record import scope as scopes
from clew_shared.record import snapshot
from clew_shared.record.scope import UNKNOWN


def test_a_replay_and_a_restart_at_each_step_come_to_the_same_verdicts(played):
    dice = random.Random(5)

    def steps(agent, *, restarts):
        heard = []
        for n in range(60):
            name = dice.choice("abc")
            output = dice.choice(("same", f"other {n}", "3 failed", f"{60 - n} failed"))
            answer = agent.fail(f"check {name}", output)
            heard.append((answer.allowed, answer.word))
            if restarts:
                agent.restart()
        return heard

    state = dice.getstate()
    through = steps(played(), restarts=False)
    dice.setstate(state)
    assert steps(played(), restarts=True) == through


def test_what_is_remembered_stays_below_64_kb_and_is_json(played):
    agent, dice = played(), random.Random(7)
    for n in range(3000):
        output = "\n".join(f"line {dice.getrandbits(40)} of part{dice.random()}" for _ in range(30))
        agent.run(f"look {n} in folder{n}/file{n}.txt", output=output)
        agent.core.take()
        agent.state.subtask.actions.clear()
    body = json.loads(snapshot.dump(agent.state))["loops"]["scope"]["memory"]
    assert len(json.dumps(body, separators=(",", ":"))) <= 64_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("built in 3.4s at 2026-11-21T10:00:00.123Z", "built in <d> at <t>"),
        ("pid 1234 started", "pid <id> started"),
        ("3 failed, 17 passed in 0.12s", "3 failed, 17 passed in <d>"),
        ("job 3 of 10", "job 3 of 10"),
        ("python3.11 f10.py utf8 sha256", "python3.11 f10.py utf8 sha256"),
        ("request_id: req_9f8a7b6c5d", "request_id: <id>"),
        ("no number at all", "no number at all"),
    ],
)
def test_only_times_durations_and_ids_are_left_out(text, expected):
    assert reading.masked(reading.laid_out(text)) == expected


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
