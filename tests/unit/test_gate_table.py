"""What is refused, and what never is, beside the examples of docs/loops.md. A move is one action."""

import pytest

MAKE = 'run_cmd::{"cmd":"make"}'


def write(path, content):
    return lambda agent: agent.write(path, content)


def fail(cmd, output="it does not work"):
    return lambda agent: agent.fail(cmd, output)


def run(cmd, output="", **files):
    return lambda agent: agent.run(cmd, output=output, files=files)


def read(path):
    return lambda agent: agent.read(path, f"text of {path}")


def record(tool, output=None, result="success", changed=None, **args):
    return lambda agent: agent.record(tool, args, result, output, changed)


def dies(tool, **args):
    def move(agent):
        verdict = agent.core.propose(tool, args, 0.0)
        if verdict.allowed:
            agent.core.interrupt("killed", 0.0, counts=True)
        return verdict

    return move


def claim_and_touch(agent):
    answer = agent.act("sync", {"to": "x"}, output="ok", changed=True)
    agent.files["x"] = "done"
    return answer


def recorded_write(content):
    def move(agent):
        agent.files["a"] = content
        args = {"path": "a", "content": content}
        return agent.record("write_file", args, output="ok", world=agent.world)

    return move


def restarted(agent):
    agent.restart()


def play(agent, moves):
    """Make moves until one is refused; give its number and the reason."""
    for n, move in enumerate(moves, 1):
        answer = move(agent)
        if hasattr(answer, "allowed") and not answer.allowed:
            return n, answer.reason
    return None


A, B = write("a", "x"), write("a", "y")
WAIT = [lambda agent: agent.act("wait", {"seconds": 1})]
FILES = [read(f"file {n}") for n in range(5)]
TALKS = [fail("pytest", "no x"), fail("pytest", "no y")]

REFUSED = {
    "the same, with other actions between":
        ({}, [fail("make"), read("a"), fail("make"), read("b"), read("c"), fail("make")], (6, "repetition")),
    "the same, restarted between":
        ({}, [fail("make"), restarted, fail("make"), restarted, fail("make")], (5, "repetition")),
    "only durations differ":
        ({}, [fail("pytest", f"1 failed in 0.{n}s") for n in range(3)], (3, "repetition")),
    "a flaky command has one attempt more":
        ({}, [fail("flip", text) for text in ("red", "blue", "red", "blue", "red", "red")], (6, "repetition")),
    "repeat_limit": ({"repeat_limit": 5}, [fail("make")] * 5, (5, "repetition")),
    "nothing reported": ({}, [record("go", n=1)] * 3, (3, "repetition")),
    "a claim that leads to a world already seen":
        ({}, [record("sync", "ok", changed=True)] * 3, (3, "repetition")),
    "a claim, though the disk moves": ({}, [claim_and_touch] * 3, (3, "repetition")),
    "the same outcome though others came between":
        ({}, [record("flip", text, "failure") for text in ("red", "blue", "red", "red")], (4, "repetition")),
    "the same, reported afterwards":
        ({}, [recorded_write("x"), recorded_write("y")] * 3, (4, "alternation")),
    "the same, with waits between": ({}, [A, *WAIT, B] * 3, (6, "alternation")),
    "an edit, a test, the same edit, the test": ({}, [A, fail("pytest")] * 3, (4, "alternation")),
    "two edits with a test after each": ({}, [A, TALKS[0], B, TALKS[1]] * 3, (8, "cycle")),
    "a ring of four reads": ({}, FILES[:4] * 4, (12, "cycle")),
    "a longer ring is for the other rule": ({}, FILES * 4, (16, "repetition")),
    "max_period": ({"max_period": 5}, FILES * 4, (15, "cycle")),
    "nothing reported, in turn": ({}, [record("a"), record("b")] * 3, (4, "alternation")),
    "crash_limit": ({"crash_limit": 1}, [dies("run_cmd", cmd="make")] * 2, (2, "crash")),
    "a wait of which it dies": ({}, [dies("wait", seconds=1)] * 3, (3, "crash")),
    "plain counts, in turn":
        ({"progress_aware": False}, [run(c, f"{n}", n=f"{n}{c}") for n in (0, 1) for c in "ab"], (4, "alternation")),
}  # fmt: skip

ALLOWED = {
    "a test between different edits": [
        move for n in range(12) for move in (write("a", f"v{n}"), fail("pytest", "FAILED a"))
    ],
    "a poll whose answer moves": [run("job", f"{n}% done") for n in range(40)],
    "a poll that stays": [run("job", "pending")] * 20,
    "waits": [*WAIT, run("sleep 5")] * 20,
    "rounds in which the output moves": [
        move for n in range(20) for move in (run("list", f"{40 - n} left"), run("take", f"i{n}x"))
    ],
    "other edits with the same test and look between": [
        move for n in range(12) for move in (write("a", f"v{n}"), fail("test"), read("b"))
    ],
    "back once, and then on": [
        move
        for text in ("old", "new", "old", "other")
        for move in (write("a", text), fail("pytest", f"{text} fails"))
    ],
    "different actions of which nothing is reported": [record("go", n=n) for n in range(20)],
    "a claim after a new one": [
        move
        for n in range(10)
        for move in (record("sync", "ok", changed=True), record("edit", "ok", changed=True, n=n))
    ],
    "reports that bring something new": [
        record("test", f"{20 - n} failed", "failure") for n in range(10)
    ],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_bring_nothing_is_refused(played, name):
    loops, moves, expected = REFUSED[name]
    assert play(played(**loops), moves) == expected


@pytest.mark.parametrize("name", ALLOWED)
def test_what_may_bring_something_is_never_refused(agent, name):
    assert play(agent, ALLOWED[name]) is None


def test_a_refusal_says_what_happened_and_what_else_to_do(agent):
    for _ in range(3):
        answer = agent.fail("make", "No rule to make target `all`")
    for word in ("No rule to make", "different action", "complete_subtask", "finish", "replan"):
        assert word in answer.message
    done = [agent.write("a", "x") for _ in range(3)][-1]
    assert "already succeeded" in done.message
    undone = [agent.write("b", text) for text in "xyxy"][-1]
    assert "goes back and forth" in undone.message
    loops = [e for _, e in agent.take() if e.kind == "loop_detected"]
    assert [(e.loop, e.attempt_count) for e in loops] == [
        *[("repetition", 3)] * 2,
        ("alternation", 2),
    ]
    assert loops[0].signature == MAKE
    assert all(e.of and len(e.steps) >= 2 for e in loops)


LIFTED = {
    "a person changed something": lambda agent: agent.files.update(a="by a person"),
    "feedback": lambda agent: agent.feedback(),
    "the end of the subtask": lambda agent: [agent.complete(), agent.advance()],
}


@pytest.mark.parametrize("what", LIFTED)
def test_a_block_ends(played, what):
    agent = played(["one", "two"])
    assert play(agent, [fail("make", "no rule")] * 3) == (3, "repetition")
    LIFTED[what](agent)
    assert play(agent, [fail("make", "no rule")] * 3) == (3, "repetition")


def test_a_block_holds_again_when_its_world_is_back(agent):
    assert play(agent, [fail("make", "no rule")] * 3) == (3, "repetition")
    agent.write("a", "x")
    assert agent.fail("make", "no rule").allowed
    agent.files.clear()
    agent.run("git checkout .", output="clean")
    assert agent.fail("make").reason == "blocked_action"
