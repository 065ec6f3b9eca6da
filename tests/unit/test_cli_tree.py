"""A goal as `clew status GOAL` draws it: what its LLM calls have cost, and what replans put aside."""

import pytest

from clew_daemon.cli.tree import goal_lines, thousands
from clew_shared import events as ev
from clew_shared.publish import goal_detail


def drawn(agent):
    return ["".join(text for text, _ in line) for line in goal_lines(goal_detail(agent.state))]


def turn(agent, tokens_in, cached):
    used = {"tokens_in": tokens_in, "tokens_out": 40, "tokens_cached": cached, "llm_s": 0.5}
    event = ev.Reflected(iteration=0, tokens=tokens_in + 40, prompt=ev.Prompt(), **used)
    agent.core.emit(event)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (999, "999"), (1_000, "1.0k"), (9_949, "9.9k"), (9_950, "10k"), (33_800, "34k")],
)
def test_tokens_are_written_in_three_digits_or_so(count, text):
    assert thousands(count) == text


def test_what_the_llm_has_cost_is_told_for_the_goal_and_for_each_subtask_that_asked_it(played):
    agent = played(["one", "two"])
    turn(agent, 4_000, 3_000)
    turn(agent, 6_000, 5_000)
    lines = drawn(agent)
    assert (
        "LLM: 2 calls, 10k tokens in (80 % cached), 80 out, 1.0 s"
        "; the last 6.0k tokens in (83 % cached), 40 out, 0.5 s"
    ) in lines
    assert "    [>] one  2 calls, 10k tokens (80 % cached)" in lines
    assert "    [ ] two" in lines


def test_a_server_that_counts_no_tokens_is_said_to_cache_nothing(agent):
    agent.core.emit(ev.Reflected(iteration=0, prompt=ev.Prompt()))
    assert any("LLM: 1 call, 0 tokens in, 0 out, 0.0 s" in line for line in drawn(agent))


def test_without_llm_calls_nothing_is_said_of_their_cost(agent):
    assert not [line for line in drawn(agent) if "call" in line]


def test_what_a_replan_put_aside_stays_readable(played):
    agent = played(["one"], failure_limit=1)
    agent.complete(success=False, failure="no disk")
    agent.replan("task", ["another"])
    lines = drawn(agent)
    at = lines.index("dropped when the agent planned again:")
    assert lines[at + 1].startswith("    one (blocked")
    assert "no disk" in lines[at + 1]
