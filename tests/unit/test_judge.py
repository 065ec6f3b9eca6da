"""What a step brings: the measure behind `nothing_new`, through the core that judges (docs/loops.md)."""

import json
import random

import pytest

from clew_shared.judge import masks, reading
from clew_shared.record import snapshot


def words(agent, steps):
    return [answer.word for answer in steps(agent)]


def searches(agent, n=8):
    return [agent.act("search", {"pattern": f"word{k}"}, output="nothing found") for k in range(n)]


def test_questions_that_find_nothing_are_told_of_in_facts(agent):
    heard = [answer.word for answer in searches(agent, 10)]
    first = heard.index("nothing_new")
    assert first <= 9
    (event,) = [e for _, e in agent.take() if e.kind == "intervened"][:1]
    assert event.since_gain >= 3
    assert event.debt >= 3
    assert len(event.steps) >= 3
    assert event.last_gain.text == "nothing found"
    assert "brought nothing new: search" in event.message


def test_the_last_new_thing_is_the_line_that_was_new_in_the_step_that_is_named(agent):
    agent.run("cat a", output="alpha beta\nsecond line")
    last = agent.run("cat b", output="alpha beta\nthe third kind: gamma delta")
    memory_ = agent.state.scope.memory
    assert (memory_.gained_seq, memory_.news) == (last.verdict.seq, "the third kind: gamma delta")
    written = agent.write("a", "1")
    assert (memory_.gained_seq, memory_.news) == (written.verdict.seq, "written")


def test_what_clew_publishes_is_nothing_new(agent):
    agent.run("grep -rn port .", output="./a.conf: port 80")
    gained = agent.state.scope.memory.gained_seq
    for n in range(3):
        published = (
            f"./.agent_context/state.json: step {n} word{n}x of port\n/w/.agent_context/log: p{n}"
        )
        agent.run(f"grep -rn port . | tail -{n}9", output=f"{published}\n./a.conf: port 80")
    assert agent.state.scope.memory.gained_seq == gained


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


def test_a_number_that_falls_or_has_an_end_is_progress_and_one_to_and_fro_is_none(played):
    falls, ends, turns, dice = played(), played(), played(), random.Random(1)
    for n in range(16):
        assert (
            falls.run("queue", output=f"{900 - 37 * n} waiting, age {dice.randint(1, 99)}").word
            == ""
        )
        assert ends.run("build", output=f"[{n * 20}/400] compiling").word == ""
    heard = [turns.run("scan", output=f"wall at {dice.randint(1, 99)} cm").word for _ in range(16)]
    assert "nothing_new" in heard


def test_who_is_told_twice_and_continues_has_failed_and_a_poll_never_has(agent, played):
    for n in range(30):
        agent.act("search", {"pattern": f"word{n}"}, output="nothing found")
        if agent.state.subtask.attempts:
            break
    assert "did not react" in agent.state.subtask.last_failure
    watching = played()
    for _ in range(40):
        watching.act("wait", {"seconds": 5})
        watching.run("job status", output="running")
    assert watching.state.subtask.attempts == 0


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


def test_reading_never_fails_and_is_bounded():
    for text in (
        "",
        "\0" * 5000,
        "\ud800",
        "[" * 100_000,
        "1" * 100_000,
        f"a {'1' * 400} of {'2' * 400}",
        "a:b " * 50_000,
    ):
        found = reading.read("tool", {"cmd": text[:3000], "n": None}, "success", text)
        assert len(found.model_dump_json()) <= 8_000
        assert reading.Reading.model_validate_json(found.model_dump_json()) == found
