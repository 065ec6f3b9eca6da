"""When an agent is told that it gets no further, and what; `test_judge.py` has what steps bring."""

import pytest

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


TOLD = {
    "three thoughts of one theme": ({}, thinks(*PLANS), "theme"),
    "theme_window": ({"theme_window": 2}, thinks("I plan", "I plan"), "theme"),
    "three thoughts without an act": ({}, thinks("hm 1", "hm 2", "hm 3"), "repeated_planning"),
    "thoughts_without_tools": ({"thoughts_without_tools": 2}, thinks("hm", "hm"), "repeated_planning"),
    "five turns without a fact": ({}, says(*["advancing"] * 5), "no_progress"),
    "stuck three times": ({}, says("stuck", "regressing", "stuck"), "stuck"),
}  # fmt: skip

SILENT = {
    "a planet is no plan": thinks(*["the planet"] * 5, tools=True),
    "thoughts with tool calls": thinks(*["hm"] * 8, "", *["Let me go on"] * 8, tools=True),
    "acts between thoughts": [
        move for n in range(6) for move in (*thinks(f"hm {n}", f"well {n}"), reads(n))
    ],
    "searches that find something": [
        move for n in range(10) for move in (*thinks("I search for it", tools=True), reads(n))
    ],
    "one sentence about ever other things": [
        move
        for n, name in enumerate(NAMES)
        for move in (*thinks(f"I turn to the {name} and mend its loop", tools=True), broken(n))
    ],
    "turns that bring facts": [move for n in range(20) for move in (reads(n), *says("advancing"))],
    "advancing ends the row of being stuck": says("stuck", "stuck", "advancing", "stuck"),
}


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


def test_a_claim_to_advance_without_a_new_fact_is_told_so(played):
    for said, claims in (("advancing", True), ("stuck", False)):
        agent = played(stuck_limit=99)
        for _ in range(5):
            agent.reflect(said)
        (event,) = [e for _, e in agent.take() if e.kind == "intervened"]
        assert event.message.startswith("You call it advancing, but 5 iterations") is claims


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
