"""What an llm agent's prompts look like over turns, folds, windows and epochs; and what it tells of them."""

from itertools import pairwise

import pytest
from goal_daemon import GoalDaemon, subtask, task
from llm_server import ScriptedLlm, calls, fails, says

LONG_NOTES = "Take care of every one of the following.\n" * 10
DOWN = fails(503, "down")


def shell(n, text=None, **reflect):
    call = ("run_cmd", {"cmd": f"seq {n} {n + 40}; echo {n} >> log"})
    part = (("reflect", reflect),) if reflect else ()
    return calls(*part, call, text=text)


@pytest.fixture
def daemon(tmp_path):
    return GoalDaemon(tmp_path, notes=LONG_NOTES)


async def test_the_prompt_that_is_sent_begins_as_the_one_before_did(daemon, run_llm):
    with ScriptedLlm(*(shell(n) for n in range(1, 9)), then=DOWN) as llm:
        assert await run_llm(daemon, llm) == 75
    prompts = [request["messages"] for request in llm.requests[:9]]
    for before, now in pairwise(prompts[1:]):
        *stable, last = before
        assert now[: len(stable)] == stable
        kept = last["content"].partition("\n\nAfter this")[0].partition("\n\nIs the goal")[0]
        assert now[len(stable)]["content"].startswith(kept.partition("\n\n[PROGRESS")[0])


async def test_a_reflect_field_among_the_arguments_is_taken_out_of_them(daemon, run_llm):
    call = calls(("write_file", {"path": "a", "content": "b", "reflect": {"assessment": "stuck"}}))
    with ScriptedLlm(shell(1), call, then=DOWN) as llm:
        assert await run_llm(daemon, llm) == 75
    assert daemon.params("act")[1]["args"] == {"path": "a", "content": "b"}
    assert daemon.params("reflect")[1]["progress_assessment"] == "stuck"


async def test_tokens_of_a_turn_are_shared_among_its_calls(tmp_path, run_llm):
    daemon = GoalDaemon(tmp_path, tasks=(task("All", subtask("one"), subtask("two")),))
    done = calls(("complete_subtask", {"success": True, "summary": "ok"}))
    both = calls(("list_files", {}), ("run_cmd", {"cmd": "true"}))
    with ScriptedLlm(both, done, shell(1), done) as llm:
        assert await run_llm(daemon, llm) == 0
    first = daemon.params("reflect")[0]["tool_calls"]
    assert [call["cost"]["tokens"] for call in first] == [55, 55]
    assert (daemon.state.cost.calls, daemon.state.cost.tokens) == (4, 440)


async def test_the_mode_and_the_token_count_are_known_to_the_next_epoch(daemon, run_llm):
    no_tools = fails(400, "this model does not support tools")
    text = says('{"tool": "list_files", "args": {}}')
    with ScriptedLlm(no_tools, text, then=DOWN) as llm:
        assert await run_llm(daemon, llm) == 75
    daemon.begin_epoch()
    del daemon.agent["base_url"]
    with ScriptedLlm(then=DOWN) as again:
        assert await run_llm(daemon, again) == 75
    assert "tools" not in again.requests[0]
    assert daemon.state.guidance.prompt.chars_per_token != 4.0
