"""What a step brings: the measure behind `nothing_new`, through the core that judges (docs/loops.md)."""

import json
import random

import pytest

from clew_shared.judge import masks
from clew_shared.record import snapshot


def words(agent, steps):
    return [answer.word for answer in steps(agent)]


def searches(agent, n=8):
    return [agent.act("search", {"pattern": f"word{k}"}, output="nothing found") for k in range(n)]


def test_the_last_new_thing_is_the_line_that_was_new_in_the_step_that_is_named(agent):
    agent.run("cat a", output="alpha beta\nsecond line")
    last = agent.run("cat b", output="alpha beta\nthe third kind: gamma delta")
    memory_ = agent.state.scope.memory
    assert (memory_.gained_seq, memory_.news) == (last.verdict.seq, "the third kind: gamma delta")
    written = agent.write("a", "1")
    assert (memory_.gained_seq, memory_.news) == (written.verdict.seq, "written")


STAMPS = {
    "an id": lambda dice: f" req-{dice.getrandbits(40):x}",
    "a number": lambda dice: f" #{dice.randint(10_000, 99_999)}",
    "a load": lambda dice: f" load {dice.random():.2f} of {dice.randint(100, 900)} threads",
}


@pytest.mark.parametrize("stamp", STAMPS.values(), ids=STAMPS.keys())
def test_what_stands_on_each_line_anew_is_no_news(agent, stamp):
    dice = random.Random(1)
    lines = ["replicas of web", "image and tag", "port for health", "memory limit"]
    heard = [
        agent.run(f"{how} a", output="\n".join(line + stamp(dice) for line in lines)).word
        for how in ("cat", "head", "tail", "nl", "awk 1", "sed -n p", "tac", "less", "more")
    ]
    assert "nothing_new" in heard


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
    body = json.loads(snapshot.dump(agent.state))["scope"]["memory"]
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
    assert masks.masked(masks.laid_out(text)) == expected
