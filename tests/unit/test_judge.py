"""What a step brings: the measure behind `nothing_new`, through the core that judges (docs/loops.md)."""

import json
import random

import pytest

from clew_shared.judge import reading
from clew_shared.record import snapshot


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
