"""What speaks against the claim that a goal is done."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_shared.core.claims import described, finished_anyway, unheeded

RESULTS = ("success", "failure", "error", "timeout")


def asked(agent):
    return agent.core.question_finish(1.0)


def test_nothing_is_asked_where_nothing_was_done(agent):
    assert asked(agent) == ""


def test_a_failed_last_action_is_asked_about_once_and_again_only_after_another_one_failed(agent):
    agent.fail("python app.py")
    assert "The last command of 1.1 failed: python app.py. Nothing has succeeded since" in asked(
        agent
    )
    assert asked(agent) == ""
    agent.fail("python other.py")
    assert "other.py" in asked(agent)


def test_that_it_was_asked_survives_a_restart(agent):
    agent.fail("python app.py")
    assert asked(agent)
    agent.restart()
    assert asked(agent) == ""


def test_a_success_after_it_answers_the_question(agent):
    agent.fail("python app.py")
    agent.run("python3 app.py")
    assert asked(agent) == ""


@pytest.mark.parametrize(("tool", "args"), [("wait", {"seconds": 1}), ("recall", {"seq": 3})])
def test_waiting_and_recalling_are_no_success(agent, tool, args):
    agent.fail("python app.py")
    agent.act(tool, args, output="…")
    assert "python app.py" in asked(agent)


def test_a_refusal_after_it_changes_nothing(agent):
    for _ in range(3):
        agent.fail("make", "no rule")
    assert agent.state.subtask.actions[-1].result == "blocked"
    assert "make" in asked(agent)


def test_a_failure_in_an_earlier_subtask_is_heeded_by_a_later_success_and_still_named(played):
    agent = played(["one", "two"])
    agent.fail("pytest -q")
    agent.complete()
    agent.advance()
    agent.run("echo done")
    agent.complete()
    assert asked(agent) == ""
    assert [described(*found) for found in finished_anyway(agent.state)] == [
        "the last command of 1.1 failed: pytest -q"
    ]


def test_a_description_names_the_exit_code_the_tool_and_a_timeout(agent):
    agent.act("read_file", {"path": "x"}, "error", "no such file")
    assert described(*unheeded(agent.state)) == "the last action of 1.1 failed: read_file(path=x)"
    agent.run(["sleep", "9 s"], "timeout")
    assert described(*unheeded(agent.state)) == "the last command of 1.1 timed out: sleep '9 s'"
    action = unheeded(agent.state)[1]
    action.result, action.exit_code = "failure", 127
    assert "failed (exit 127): sleep" in described("1.1", action)


@given(ends=st.lists(st.sampled_from(RESULTS), max_size=12), crash=st.booleans())
def test_a_claim_is_questioned_exactly_where_the_last_action_failed(played, ends, crash):
    agent = played()
    for n, result in enumerate(ends):
        agent.run(f"step {n}", result, f"output {n}")
    failed = bool(ends) and ends[-1] != "success"
    if crash:
        agent.restart()
    assert bool(asked(agent)) == failed
    assert asked(agent) == ""
