"""What an llm agent's prompts look like over turns, folds, windows and epochs; and what it tells of them."""

import json
from itertools import pairwise

import pytest
from goal_daemon import GoalDaemon, subtask, task
from llm_server import ScriptedLlm, calls, fails, says

from clew_shared.prompt.layout import lay_out
from clew_shared.prompt.view import view_from
from clew_shared.wire.hello import HelloAnswer

LONG_NOTES = "Take care of every one of the following.\n" * 10
DOWN = fails(503, "down")


def read(daemon):
    return HelloAnswer.model_validate(daemon.hello())


def shell(n, text=None, **reflect):
    call = ("run_cmd", {"cmd": f"seq {n} {n + 40}; echo {n} >> log"})
    part = (("reflect", reflect),) if reflect else ()
    return calls(*part, call, text=text)


@pytest.fixture
def daemon(tmp_path):
    return GoalDaemon(tmp_path, notes=LONG_NOTES)


@pytest.mark.parametrize("mode", ["tools", "json"])
@pytest.mark.parametrize("max_tokens", [8000, 1800])
async def test_a_new_epoch_asks_exactly_what_the_last_one_would_have_asked(
    daemon, run_llm, mode, max_tokens
):
    daemon.agent["mode"] = mode
    daemon.context = {"max_tokens": max_tokens, "full_until": 6, "moderate_until": 8}
    script = [
        shell(1, text="I look first. password=hunter2hunter2"),
        says("Let me think about the plan."),
        shell(
            2, insights="the log grows", relevance="high", next="read the log", assessment="stuck"
        ),
        calls(("teleport", {"to": "mars"})),
        calls(("finish", {"summary": "done"})),
        *(shell(n, insights=f"line {n}", assessment="stuck") for n in range(3, 6)),
        *(shell(n, insights=f"line {n}") for n in range(6, 9)),
    ]
    script = [_as_text(reply) if mode == "json" else reply for reply in script]
    daemon.checks = {"never": "false"}
    with ScriptedLlm(*script, then=DOWN) as llm:
        assert await run_llm(daemon, llm) == 75
    daemon.begin_epoch()
    del daemon.agent["base_url"]
    expected = llm.requests[-1]["messages"]
    assert "You have called yourself stuck" in llm.prompt(len(llm.requests) - 1)
    assert lay_out(view_from(read(daemon), mode=mode)).messages == expected
    with ScriptedLlm(then=DOWN) as again:
        assert await run_llm(daemon, again) == 75
    assert again.requests[0]["messages"] == expected


def _as_text(reply):
    """Turn a reply of native calls into the JSON text that a model writes."""
    message = json.loads(reply.body)["choices"][0]["message"]
    if not message.get("tool_calls"):
        return reply
    named = {c["function"]["name"]: c["function"] for c in message["tool_calls"]}
    reflect = named.pop("reflect", None)
    (function,) = named.values()
    value = {"tool": function["name"], "args": json.loads(function["arguments"])}
    if reflect:
        value["reflect"] = json.loads(reflect["arguments"])
    text = json.dumps(value)
    return says(f"{message['content']}\n{text}" if message["content"] else text)


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


async def test_tokens_of_a_turn_are_shared_among_its_calls_and_charged_to_the_subtask(
    tmp_path, run_llm
):
    daemon = GoalDaemon(tmp_path, tasks=(task("All", subtask("one"), subtask("two")),))
    done = calls(("complete_subtask", {"success": True, "summary": "ok"}))
    both = calls(("list_files", {}), ("run_cmd", {"cmd": "true"}))
    with ScriptedLlm(both, done, shell(1), done) as llm:
        assert await run_llm(daemon, llm) == 0
    first = daemon.params("reflect")[0]["tool_calls"]
    assert [call["cost"]["tokens"] for call in first] == [55, 55]
    costs = [s.cost for s in daemon.state.goal.tasks[0].subtasks]
    assert [(c.calls, c.tokens) for c in costs] == [(2, 220), (2, 220)]


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
    assert daemon.state.prompt.chars_per_token != 4.0


async def test_head_and_hash_of_a_context_from_the_record_are_those_of_the_last_call(
    daemon, run_llm
):
    with ScriptedLlm(*(shell(n) for n in range(1, 5)), then=DOWN) as llm:
        assert await run_llm(daemon, llm) == 75
    laid = lay_out(view_from(read(daemon)))
    assert laid.sha == daemon.state.prompt.sha
