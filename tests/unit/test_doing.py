"""What a worker does now: a rule of its goal's state and its session's work."""

import pytest

from clew_daemon.record.doing import Work, now_view


@pytest.fixture
def greeted():
    return Work(greeted=True)


def test_an_llm_call_is_thinking_since_it_began(agent, greeted):
    greeted.llm_since = 60.0
    found = now_view(agent.state, greeted)
    assert found == {
        "doing": "thinking",
        "since": "1970-01-01T00:01:00.000000+00:00",
        "what": "LLM call",
    }
    greeted.llm_queued = True
    assert now_view(agent.state, greeted)["what"] == "waiting for a free LLM slot"


def test_an_action_in_flight_is_a_tool_that_runs(agent, greeted):
    agent.at = 120.0
    verdict = agent.core.propose("run_cmd", {"cmd": "make"}, agent.at)
    found = now_view(agent.state, greeted)
    assert found["doing"] == "tool"
    assert found["since"] == "1970-01-01T00:02:00.000000+00:00"
    assert found["what"] == f"#{verdict.seq} make"


def test_checks_count_before_all_else(agent, greeted):
    greeted.llm_since = 60.0
    greeted.check, greeted.check_since = "tests_pass", 90.0
    assert now_view(agent.state, greeted) == {
        "doing": "checks",
        "since": "1970-01-01T00:01:30.000000+00:00",
        "what": "check tests_pass",
    }
