import pytest
from goal_daemon import GoalDaemon
from llm_server import Reply, ScriptedLlm, calls, fails, says, writes

from clew_shared.config.tables import LoopSettings
from clew_shared.gate.rules import WHAT_ELSE
from clew_shared.record import events as ev

HELLO = {"path": "hello.txt", "content": "hello"}
WRITE = calls(("write_file", HELLO))
FINISH = calls(("finish", {"summary": "hello.txt is there"}))
LONG_NOTES = "Take care of every one of the following.\n" * 10


@pytest.fixture
def daemon(tmp_path):
    return GoalDaemon(tmp_path)


# ---- the plain way, in each mode


async def test_a_model_without_tools_is_asked_for_json_with_a_schema_per_tool(
    daemon, run_llm, tmp_path
):
    daemon.agent["mode"] = "json"
    with ScriptedLlm(writes("write_file", **HELLO), writes("finish", summary="done")) as llm:
        assert await run_llm(daemon, llm) == 0
    assert "tools" not in llm.requests[0]
    assert {"write_file", "run_cmd", "finish"} <= llm.offered(0)
    assert (tmp_path / "hello.txt").exists()


async def test_a_server_that_knows_no_schema_is_asked_for_less_and_less(daemon, run_llm):
    daemon.agent["mode"] = "json"
    no = fails(400, "response_format is not supported")
    script = (no, no, no, writes("write_file", **HELLO), writes("finish", summary=""))
    with ScriptedLlm(*script) as llm:
        assert await run_llm(daemon, llm) == 0
    kinds = [r.get("response_format", {}).get("type") for r in llm.requests]
    assert kinds[:4] == ["json_schema", "json_schema", "json_object", None]


# ---- refusals, checks, claims


async def test_a_refusal_is_shown_word_for_word_and_the_tool_not_offered_once(daemon, run_llm):
    daemon.agent["mode"] = "json"
    write = writes("write_file", **HELLO)
    with ScriptedLlm(write, write, write, writes("finish", summary="done")) as llm:
        assert await run_llm(daemon, llm) == 0
    refusal = next(e.event for e in daemon.recorded if isinstance(e.event, ev.ActionBlocked))
    why, _, advice = refusal.message.partition(WHAT_ELSE)
    assert why.strip() in llm.prompt(3)
    assert advice not in llm.prompt(3)  # it names a tool that is not offered
    assert "write_file" in llm.offered(2)
    assert "write_file" not in llm.offered(3)
    assert [r["temperature"] for r in llm.requests] == [0.2, 0.2, 0.2, 0.7]


async def test_checks_end_a_goal_whose_model_only_repeats_itself(daemon, run_llm):
    daemon.checks = {"there": "test -f hello.txt"}
    with ScriptedLlm(then=WRITE) as llm:
        assert await run_llm(daemon, llm) == 0
    assert daemon.finished[0] is True


async def test_without_checks_repeating_is_never_taken_for_success(daemon, run_llm):
    with ScriptedLlm(then=WRITE) as llm:
        assert await run_llm(daemon, llm) == 0
    assert daemon.finished is None
    assert daemon.state.plan.replan_required == "task"


# ---- plans


async def test_a_larger_goal_is_planned_and_each_finished_subtask_is_one_line(daemon, run_llm):
    daemon.notes = LONG_NOTES
    plan = {"tasks": [{"description": "Files", "subtasks": ["Write hello", "Write bye"]}]}
    done = calls(("complete_subtask", {"success": True, "summary": "hello is written"}))
    bye = calls(("write_file", {"path": "bye.txt", "content": "bye"}))
    last = calls(("complete_subtask", {"success": True, "summary": "bye is written"}))
    with ScriptedLlm(calls(("plan", plan)), WRITE, done, bye, last) as llm:
        assert await run_llm(daemon, llm) == 0
    assert "plan" in llm.offered(0)
    assert "plan" not in llm.offered(1)
    assert "Your subtask now: Write hello" in llm.prompt(1)
    assert "- [x] Write hello: hello is written" in llm.prompt(3)
    assert "created hello.txt" not in llm.prompt(3)
    assert daemon.finished == (True, "bye is written")


@pytest.mark.parametrize("mode", ["tools", "json"])
async def test_a_plan_may_suggest_checks_and_bad_ones_are_left_out(daemon, run_llm, mode):
    daemon.notes, daemon.agent["mode"] = LONG_NOTES, mode
    checks = [
        {"name": "there", "cmd": "test -f hello.txt"},
        {"name": "two lines", "cmd": "true\nfalse"},
        {"name": "there", "cmd": "false"},
        {"name": "long", "cmd": "x" * 1_000},
        {"cmd": "ls hello.txt"},
        7,
    ]
    plan = {"tasks": [{"description": "Files", "subtasks": ["Write it"]}], "checks": checks}
    done = {"success": True, "summary": "it is written"}
    script = [("plan", plan), ("write_file", HELLO), ("complete_subtask", done)]
    replies = [calls(one) if mode == "tools" else writes(one[0], **one[1]) for one in script]
    with ScriptedLlm(*replies) as llm:
        assert await run_llm(daemon, llm) == 0
    assert daemon.state.proofs.suggested == {
        "there": "test -f hello.txt",
        "check_5": "ls hello.txt",
    }


async def test_a_blocked_subtask_is_replanned_and_the_goal_goes_on(daemon, run_llm):
    daemon.loops = daemon.core.loops = LoopSettings(failure_limit=1)
    give_up = calls(("complete_subtask", {"success": False, "summary": "no way"}))
    replan = calls(("plan", {"tasks": ["Another way"]}))
    done = calls(("complete_subtask", {"success": True, "summary": "went well"}))
    with ScriptedLlm(give_up, replan, WRITE, done) as llm:
        assert await run_llm(daemon, llm) == 0
    assert llm.offered(1) == {"plan", "finish"}
    assert "no way" in llm.prompt(1)
    assert daemon.params("plan")[0]["replan"] == "task"
    assert daemon.finished == (True, "went well")


async def test_a_model_that_cannot_replan_leaves_the_goal_to_a_person(daemon, run_llm):
    daemon.loops = daemon.core.loops = LoopSettings(failure_limit=1)
    give_up = calls(("complete_subtask", {"success": False, "summary": "no way"}))
    with ScriptedLlm(give_up, then=says("Let me think about it.")) as llm:
        assert await run_llm(daemon, llm) == 0
    assert daemon.finished is None
    assert daemon.count("plan") == 0


# ---- the endpoint's faults


@pytest.mark.parametrize(
    "reply",
    [
        fails(500, "oops"),
        fails(503, "loading model"),
        Reply(b""),
        Reply(b"null"),
        Reply(b'{"choices": []}'),
        Reply(b'{"choices": [null]}'),
        Reply(b'{"choices": [{"message": {"content": "he'),
        Reply(b'{"choices"', cut=True),
        Reply(b"\xff\xfe\x00"),
        Reply(b"[" * 100_000),
    ],
    ids=lambda reply: f"{reply.status}-{reply.body[:20]!r}",
)
async def test_rubbish_is_asked_again_and_then_a_temporary_end(daemon, run_llm, reply):
    with ScriptedLlm(reply, WRITE, then=reply) as llm:
        assert await run_llm(daemon, llm) == 75
    assert daemon.count("act") == 1
    assert daemon.left.kind == "temporary"


async def test_a_server_that_does_not_answer_in_time_is_a_temporary_end(daemon, run_llm):
    daemon.agent["timeout_s"] = 0.2
    with ScriptedLlm(then=Reply(hang=True)) as llm:
        assert await run_llm(daemon, llm) == 75
    assert "timeout_s" in daemon.left.reason
    assert len(llm.requests) == 1


async def test_a_prompt_that_is_too_long_is_folded_harder(daemon, run_llm):
    daemon.context["max_tokens"] = 1000
    big = calls(("write_file", {"path": "big.txt", "content": "word " * 1000}))
    look = calls(("read_file", {"path": "big.txt"}))
    full = fails(400, "the request exceeds the available context size (n_ctx = 512)")
    with ScriptedLlm(big, look, full, FINISH) as llm:
        assert await run_llm(daemon, llm) == 0
    assert len(llm.prompt(3)) < len(llm.prompt(2))


@pytest.mark.parametrize(
    ("context", "most"),
    [
        ({}, 4000),
        ({"answer_tokens": 1000}, 1000),
        ({"answer_tokens": 9000}, 4000),
        ({"max_tokens": 1000, "answer_tokens": 1000}, 500),
    ],
)
async def test_an_answer_is_asked_for_with_its_limit_but_half_the_prompts_at_most(
    daemon, run_llm, context, most
):
    daemon.context |= context
    with ScriptedLlm(WRITE, FINISH) as llm:
        assert await run_llm(daemon, llm) == 0
    assert {request["max_tokens"] for request in llm.requests} == {most}


async def test_a_prompt_that_stays_too_long_ends_as_configuration(daemon, run_llm):
    with ScriptedLlm(then=fails(400, "maximum context length is 512 tokens")) as llm:
        assert await run_llm(daemon, llm) == 78
    assert "max_tokens" in daemon.left.reason
