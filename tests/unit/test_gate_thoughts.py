"""Themes of the config, what recovery prompts say, and claims that the facts do not bear out."""

import pytest

from clew_shared.config.settings import LoopSettings


@pytest.mark.parametrize(
    "thought",
    [
        "Open src/part{}.py and look for the broken loop there",
        "Step {} is done and I go on with the next part",
        "I turn to the module {letter} and mend its broken loop",
    ],
)
def test_one_sentence_about_ever_other_things_is_no_loop(agent, thought):
    names = ("parser", "lexer", "printer", "writer", "reader")
    for n, name in enumerate(names):
        assert agent.think(thought.format(n, letter=name), tools=True) == ""
        agent.fail(f"make {n}", "broken")
        if n % 2:
            agent.write("a", str(n))


def test_thoughts_of_a_few_words_are_no_plan(agent):
    assert [agent.think("Let me go on", tools=True) for _ in range(8)] == [""] * 8
    assert [agent.think("", tools=True) for _ in range(8)] == [""] * 8


@pytest.mark.parametrize("wait", ["wait", "poll"])
def test_waiting_for_a_job_is_no_loop_of_thought(agent, wait):
    words = []
    for _ in range(5):
        words.append(agent.think("The job still runs; I give it a little more time", tools=True))
        if wait == "wait":
            agent.act("wait", {"seconds": 5})
        else:
            agent.act("job_status", {"id": "7"}, output="running")
    assert words == [""] * 5


def test_long_thoughts_that_only_begin_alike_are_different(agent):
    opening = "The goal is a parser for the config, with tests and documentation. " * 8
    endings = ("Now the lexer has to be split.", "The docs lack an index.", "Tests fail on empty.")
    assert [agent.think(opening + end, tools=True) for end in endings] == [""] * 3


def test_one_theme_ignored_for_long_is_counted_each_time(agent):
    agent.run("true")
    for n in range(40):
        agent.think(f"I plan step {n}", tools=True)
    assert agent.state.subtask.attempts >= 2


def test_the_themes_are_those_of_the_config_and_a_change_applies_at_once(agent):
    thoughts = ("Vorgehen eins", "Mein Vorgehen", "Das Vorgehen steht")
    assert [agent.think(text, tools=True) for text in thoughts[:2]] == ["", ""]
    agent.core.loops = LoopSettings.model_validate({"themes": {"planning": ["vorgehen"]}})
    assert [agent.think(text, tools=True) for text in thoughts] == ["", "", "theme"]
    assert agent.think("I search for the place", tools=True) == ""
    assert agent.state.attention.theme.what == "search_intent"


def test_an_empty_list_switches_a_theme_off(played):
    agent = played(themes={"search_intent": []})
    assert [agent.think(f"I search for {n}", tools=True) for n in range(5)] == [""] * 5


def test_a_theme_of_ones_own_is_watched_and_named(played):
    agent = played(themes={"self_doubt": ["not sure"]})
    for n in range(3):
        word = agent.core.think(f"I am not sure of {n}", 0.0, has_tool_calls=True).intervention
    assert word.kind == "theme"
    assert "self doubt" in word.message


# -- what recovery prompts say -----------------------------------------------------------------------------


def heard(agent, kind):
    return [e.message for _, e in agent.take() if e.kind == "intervened" and e.intervention == kind]


def test_being_stuck_names_what_was_tried_and_asks_for_one_different_action(agent):
    agent.fail("make all", "cc: command not found")
    agent.read("README", "text")
    agent.act("edit_file", {"path": "a.py", "old": "x", "new": "y"}, "error", "old is not there")
    for _ in range(3):
        agent.reflect("stuck")
    (message,) = heard(agent, "stuck")
    assert '- run_cmd {"cmd": "make all"} failed: "cc: command not found"' in message
    assert (
        '- edit_file {"new": "y", "old": "x", "path": "a.py"} failed: "old is not there"' in message
    )
    assert "README" not in message
    assert "one different, concrete action" in message


def test_of_a_long_output_both_ends_are_named(agent):
    agent.fail("make", "begin " + "and so on\n" * 500 + "cc: fatal error")
    for _ in range(3):
        agent.reflect("stuck")
    (message,) = heard(agent, "stuck")
    assert '"begin and' in message
    assert 'cc: fatal error"' in message


def test_the_last_three_different_failures_are_named_once_each(agent):
    for cmd in ("one", "two", "three", "four", "four", "three"):
        agent.fail(cmd, f"{cmd} is broken")
    for _ in range(3):
        agent.reflect("stuck")
    (message,) = heard(agent, "stuck")
    assert [line.split('"')[3] for line in message.splitlines()[2:]] == ["two", "four", "three"]


def test_what_was_refused_is_named_with_what_it_said(agent):
    for _ in range(3):
        agent.fail("make", "2 errors")
    for _ in range(3):
        agent.reflect("stuck")
    (message,) = heard(agent, "stuck")
    assert '- run_cmd {"cmd": "make"} refused: "2 errors"' in message


def test_what_works_by_now_is_not_named(agent):
    agent.fail("make", "2 errors")
    agent.write("a", "1")
    agent.run("make", output="built")
    for _ in range(3):
        agent.reflect("stuck")
    (message,) = heard(agent, "stuck")
    assert "Tried so far" not in message


def test_a_message_is_bounded_however_long_actions_and_outputs_are(agent):
    for n in range(5):
        agent.fail("x" * 5000 + str(n), "ä\n" * 5000)
    agent.complete(success=False, failure="f" * 5000)
    for _ in range(3):
        agent.reflect("stuck")
    messages = heard(agent, "stuck")
    assert messages
    assert all(len(message) <= 2000 for message in messages)


# -- claims and evidence -----------------------------------------------------------------------------------


def test_a_claim_to_advance_without_a_new_fact_is_told_so(agent):
    for _ in range(5):
        agent.reflect("advancing")
    (message,) = heard(agent, "no_progress")
    assert message.startswith("You call it advancing, but 5 iterations brought nothing new")


@pytest.mark.parametrize("last", ["", "stuck"])
def test_without_a_claim_nothing_is_said_of_one(agent, last):
    for assessment in ("advancing", "advancing", "stuck", last, last):
        agent.reflect(assessment)
    (message,) = heard(agent, "no_progress")
    assert "advancing" not in message


def test_claims_are_counted_until_a_fact_comes(agent):
    agent.reflect("advancing")
    agent.reflect("advancing")
    assert agent.state.attention.claims == 2
    agent.read("a", "text")
    agent.reflect("advancing")
    assert agent.state.attention.claims == 0


def test_no_progress_is_not_said_right_after_a_new_fact(agent):
    for n in range(3):
        agent.act("read_file", {"path": f"x{n}"}, "error", f"no such file: x{n}")
    for _ in range(5):
        agent.reflect("advancing")
    assert heard(agent, "no_progress") == []
    words = [agent.read(f"file {n}", f"text {n}").word for n in range(5)]
    assert words == [""] * 5
