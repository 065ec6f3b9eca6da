"""`clew context` under the real daemon: what it prints is what the agent's LLM has just been asked."""

import json

import pytest
from llm_server import Reply, ScriptedLlm, calls, says

NOTES = "Take care of every one of the following, please.\n" * 8
GOAL = f"---\nchecks: {{never: 'false'}}\n---\n# Count in the log\n{NOTES}"
HANGS = Reply(hang=True)


def shell(n, text=None, lines=40, **reflect):
    call = ("run_cmd", {"cmd": f"seq {n} {n + lines}; echo {n} >> log"})
    part = (("reflect", reflect),) if reflect else ()
    return calls(*part, call, text=text)


def plan(*subtasks):
    return calls(("plan", {"tasks": [{"description": "all", "subtasks": list(subtasks)}]}))


def done(summary, **reflect):
    part = (("reflect", reflect),) if reflect else ()
    return calls(*part, ("complete_subtask", {"success": True, "summary": summary}))


def as_text(reply):
    """Turn a reply of native calls into the JSON text, of one call, that a model writes in json mode."""
    message = json.loads(reply.body)["choices"][0]["message"]
    if not message.get("tool_calls"):
        return reply
    named = {c["function"]["name"]: c["function"] for c in message["tool_calls"]}
    reflect = named.pop("reflect", None)
    function = next(iter(named.values()))
    value = {"tool": function["name"], "args": json.loads(function["arguments"])}
    if reflect:
        value["reflect"] = json.loads(reflect["arguments"])
    text = json.dumps(value)
    return says(f"{message['content']}\n{text}" if message["content"] else text)


LOOKS = shell(1, text="I look first. password=hunter2hunter2")
FINDS = shell(2, insights="the log grows", relevance="high", next="read it", assessment="stuck")
FAILS = calls(("run_cmd", {"cmd": "cat nowhere"}))
SCRIPTS = {
    "without a plan": [
        LOOKS,
        says("Let me think about the plan."),
        FINDS,
        calls(("teleport", {"to": "mars"})),
        calls(("finish", {"summary": "done"})),
        FAILS, FAILS, FAILS,
        *(shell(n, insights=f"line {n}") for n in range(3, 9)),
    ],
    "with a plan": [
        plan("look", "count", "tell"),
        LOOKS,
        FINDS,
        done("it is looked at", insights="two lines", relevance="high"),
        shell(3, insights="all is new", relevance="high"),
        shell(4),
        done("counted", insights="forty", relevance="high"),
    ],
    "after a failed attempt": [
        plan("look", "count"),
        LOOKS,
        calls(("complete_subtask", {"success": False, "summary": "no way"})),
        shell(2),
        done("it is looked at"),
    ],
    "several calls at once": [
        calls(("run_cmd", {"cmd": "seq 3"}), ("list_files", {"path": "."}), ("teleport", {})),
        calls(("reflect", {"insights": "three"}), ("run_cmd", {"cmd": "true"}), ("list_files", {})),
    ],
    "amid a replan": [
        plan("look", "count"),
        LOOKS,
        calls(("complete_subtask", {"success": False, "summary": "no way"})),
        calls(("complete_subtask", {"success": False, "summary": "no way again"})),
    ],
}  # fmt: skip


REST = ("with a plan", "after a failed attempt", "several calls at once")


def asked_until_it_hangs(clew, llm, mode, script, **context):
    """Run a goal until the server hangs on the question after the script; the goal."""
    context = {f"context.{key}": value for key, value in context.items()}
    clew.configure(context | {"attempts.iterations": 30})
    clew.model(llm, mode=mode)
    goal = clew.start().submit(GOAL)
    clew.until(lambda: len(llm.requests) > len(script), "the question that hangs")
    return goal


def shown(clew, goal):
    return json.loads(clew.clew("context", goal, "--json"))


@pytest.mark.parametrize(
    ("what", "mode"),
    [
        ("without a plan", "tools"),
        ("with a plan", "json"),
        ("amid a replan", "tools"),
        *(pytest.param(what, "tools", marks=pytest.mark.long) for what in REST),
    ],
)
def test_context_shows_what_was_just_asked_and_a_new_epoch_asks_it_again(clew, mode, what):
    script = [as_text(reply) if mode == "json" else reply for reply in SCRIPTS[what]]
    with ScriptedLlm(*script, then=HANGS) as llm:
        goal = asked_until_it_hangs(clew, llm, mode, script)
        now = shown(clew, goal)
        assert now["messages"] == llm.requests[-1]["messages"]
        assert (now["agent_kind"], now["note"]) == ("llm", "")
        clew.kill_agent(goal)
        clew.until(lambda: len(llm.requests) > len(script) + 1, "the new epoch's question")
        assert llm.requests[-1]["messages"] == llm.requests[-2]["messages"]
        assert llm.requests[-1].get("tools") == llm.requests[-2].get("tools")
        assert shown(clew, goal)["messages"] == now["messages"]
        clew.stop()
        assert shown(clew, goal)["messages"] == now["messages"]


def test_context_is_what_was_asked_where_much_is_folded(clew):
    script = [
        *(shell(n, text=f"thought {n}", lines=250, insights=f"line {n}") for n in range(1, 10)),
        calls(("run_cmd", {"cmd": "seq 2000"})),
    ]
    context = {"max_tokens": 1800, "full_until": 4, "moderate_until": 30, "aggressive_until": 40}
    with ScriptedLlm(*script, then=HANGS) as llm:
        goal = asked_until_it_hangs(clew, llm, "tools", script, **context)
        now = shown(clew, goal)
        assert now["messages"] == llm.requests[-1]["messages"]
        assert now["sizes"]["folded"]["chars"] > 0
        assert now["sizes"]["tools"]["tokens"] > 0
        assert len(now["sha_of_last_call"]) == len(now["sha"]) == 16
        printed = clew.clew("context", goal)
        assert "== user" in printed
        clew.kill_agent(goal)
        clew.until(lambda: len(llm.requests) > len(script) + 1, "the new epoch's question")
        assert llm.requests[-1]["messages"] == now["messages"]


def test_context_shows_what_a_new_daemon_asks_after_feedback_and_a_kill_of_the_old_one(clew):
    script = [shell(1), shell(2, insights="it grows", next="count")]
    with ScriptedLlm(*script, then=HANGS) as llm:
        goal = asked_until_it_hangs(clew, llm, "tools", script)
        clew.clew("feedback", goal, "count only the even ones")
        clew.kill()
        now = shown(clew, goal)
        assert "A person says: count only the even ones" in now["messages"][-1]["content"]
        clew.start()
        clew.until(lambda: len(llm.requests) > len(script) + 1, "the new daemon's question")
        assert llm.requests[-1]["messages"] == now["messages"] == shown(clew, goal)["messages"]


def test_context_of_a_goal_that_asks_no_llm_says_so_and_shows_what_one_would_be_shown(clew):
    text = "# Say hello\n\n## Do\n- [ ] Write it\n  ```sh\n  sleep 60\n  ```\n"
    goal = clew.start().submit(text)
    clew.wait("action.allowed", goal=goal)
    now = shown(clew, goal)
    assert now["agent_kind"] == "runbook"
    assert "clew calls no LLM for it" in now["note"]
    assert "Your subtask now: Write it" in now["messages"][-1]["content"]
    assert now["sha_of_last_call"] is None
    assert now["note"] in clew.clew("context", goal)


def test_what_the_model_found_and_cost_is_told_by_status_and_report(clew):
    script = SCRIPTS["with a plan"]
    give_up = calls(("finish", {"success": False, "summary": "enough"}))
    with ScriptedLlm(*script, then=give_up) as llm:
        clew.model(llm)
        goal = clew.start().submit(GOAL)
        clew.wait("goal.failed", goal=goal)
    count = len(script) + 1
    detail = json.loads(clew.clew("status", goal, "--json"))["goal"]
    cost = detail["cost"]
    assert cost["calls"] == count
    assert (cost["tokens_in"], cost["tokens_cached"]) == (100 * count, 50 * count)
    assert detail["subtask_details"][0]["summary"] == "it is looked at"
    printed = clew.clew("status", goal)
    assert f"LLM: {count} calls, " in printed
    report = clew.report(goal)
    assert f"{100 * count} in ({50 * count} cached), {10 * count} out" in report
    assert "found: the log grows" in report
